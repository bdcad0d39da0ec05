// How amounts and times are written.

export function gpus(milli) {
  const n = (milli ?? 0) / 1000;
  return Number.isInteger(n) ? n.toLocaleString('en') : n.toLocaleString('en', {maximumFractionDigits: 2});
}

// Its two largest units: "40s", "5m 3s", "2h 5m", "3d 4h". Never negative.
export function duration(seconds) {
  let rest = Math.max(0, Math.round(seconds));
  const parts = [];
  for (const [unit, size] of [['d', 86400], ['h', 3600], ['m', 60], ['s', 1]]) {
    const n = Math.floor(rest / size);
    rest -= n * size;
    if (n > 0 || (unit === 's' && parts.length === 0)) parts.push(`${n}${unit}`);
    else if (parts.length > 0) break;
    if (parts.length === 2) break;
  }
  return parts.join(' ');
}

export const now = () => Date.now() / 1000;
export const ago = (seconds) => `${duration(now() - seconds)} ago`;
export const until = (seconds) => (seconds <= now() ? 'now' : `in ${duration(seconds - now())}`);

export function clock(seconds) {
  return new Date(seconds * 1000).toLocaleString('en-GB', {
    day: 'numeric', month: 'short', hour: '2-digit', minute: '2-digit', second: '2-digit'});
}

export function hours(seconds) {
  const n = seconds / 3600;
  return n.toLocaleString('en', {maximumFractionDigits: n < 10 ? 1 : 0});
}

export const plural = (n, one, many = `${one}s`) => `${n.toLocaleString('en')} ${n === 1 ? one : many}`;

// "a", "a and b", "a, b and c"
export function listed(words) {
  return words.length < 2 ? words.join('') : `${words.slice(0, -1).join(', ')} and ${words.at(-1)}`;
}

// With an end, unless it has one.
export const sentence = (text) => (text === '' || /[.…!?]$/.test(text) ? text : `${text}.`);
