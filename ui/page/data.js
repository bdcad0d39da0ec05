// What the server tells of the cluster: tables by name, each a Map from key to row (ui/src/model.h).

export const tables = {};
for (const name of ['about', 'queues', 'projects', 'usage', 'pools', 'nodes', 'jobs', 'places', 'services'])
  tables[name] = new Map();

// asksToken: the server wants to know who looks, and the page asks. isPersonal: it knows.
export const connection = {problem: '', loaded: false, version: 0, asksToken: false, isPersonal: false};

const kTokenName = 'muster-token';
let token = '';

// The URL that was printed carries the token in its fragment. This tab keeps it; other tabs never see it.
export function takeToken() {
  const found = /^#token=([0-9a-f]+)$/.exec(location.hash);
  if (found) {
    sessionStorage.setItem(kTokenName, found[1]);
    history.replaceState(null, '', '#/now');
  }
  token = sessionStorage.getItem(kTokenName) ?? '';
}

// In a cluster everybody shows a bearer token of their own. This tab keeps it until it is closed, or told to forget.
let wake = () => {};
let stream = new AbortController();
export function signIn(text) {
  token = text.trim();
  sessionStorage.setItem(kTokenName, token);
  connection.asksToken = false;
  connection.problem = '';
  wake();
}
export function signOut() {
  token = '';
  sessionStorage.removeItem(kTokenName);
  for (const table of Object.values(tables)) table.clear();
  connection.loaded = false;
  stream.abort();
}

async function ask(path, signal) {
  const headers = token ? {Authorization: `Bearer ${token}`} : {};
  const answer = await fetch(path, {headers, signal, cache: 'no-store'});
  if (answer.ok) return answer;
  let said = {message: `${answer.status} ${answer.statusText}`};
  try { said = await answer.json(); } catch { /* it was no JSON */ }
  throw Object.assign(new Error(said.message), {status: answer.status, asksToken: said.asksToken === true});
}

export async function jobDetails(namespace, name) {
  const query = new URLSearchParams({namespace, name});
  return (await ask(`/api/job?${query}`)).json();
}

// What the jobs of a namespace had to give, newest first, also those that are gone.
export async function disruptions(namespace) {
  return (await (await ask(`/api/disruptions?${new URLSearchParams({namespace})}`)).json()).disruptions;
}

// [[at, ready, wanted, milli-GPUs, load or null], …], oldest first, since the server watches.
export async function serviceSamples(namespace, name) {
  return (await (await ask(`/api/service?${new URLSearchParams({namespace, name})}`)).json()).samples;
}

function take(kind, update) {
  for (const [name, rows] of Object.entries(update)) {
    const table = tables[name];
    if (!table) continue;
    if (kind === 'snapshot') table.clear();
    for (const [key, row] of Object.entries(rows)) {
      if (row === null) table.delete(key);
      else table.set(key, row);
    }
  }
  connection.loaded = true;
  connection.version += 1;
}

function hear(block, onChange) {
  let kind = '';
  let text = '';
  for (const line of block.split('\n')) {
    if (line.startsWith('event: ')) kind = line.slice(7);
    else if (line.startsWith('data: ')) text += line.slice(6);
  }
  if (!text) return;
  take(kind, JSON.parse(text));
  onChange();
}

async function doorAsksToken() {
  const answer = await fetch('/door', {cache: 'no-store'});
  return answer.ok && (await answer.json()).asksToken;
}

// EventSource cannot send the token, so the events are read by hand.
async function listen(onChange) {
  stream = new AbortController();
  const answer = await ask('/api/changes', stream.signal);
  connection.problem = '';
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let pieces = [];
  for (;;) {
    const {done, value} = await reader.read();
    if (done) return;
    const last = pieces.at(-1) ?? '';
    pieces.push(value);
    if (!(last.slice(-1) + value).includes('\n\n')) continue;
    const blocks = pieces.join('').split('\n\n');
    pieces = [blocks.pop()];
    for (const block of blocks) hear(block, onChange);
  }
}

export async function follow(onChange) {
  for (let pause = 1000; ; pause = Math.min(pause * 2, 15000)) {
    const began = Date.now();
    try {
      if (!token && await doorAsksToken())
        throw Object.assign(new Error(''), {status: 401, asksToken: true});
      await listen(onChange);
      connection.problem = 'The server of this page has ended the connection; the page tries again.';
    } catch (error) {
      if (error.status === 401 && !error.asksToken) {
        connection.problem = error.message;
        onChange();
        return;
      }
      if (error.status === 401) {
        connection.problem = error.message;
        connection.asksToken = connection.isPersonal = true;
        const asked = new Promise((resume) => { wake = resume; });
        onChange();
        await asked;
        onChange();
        pause = 1000;
        continue;
      }
      if (error.name === 'AbortError') continue;
      connection.problem = error.status ? error.message : connection.isPersonal
        ? 'The server of this page does not answer. What you see may be old.'
        : 'The server of this page does not answer: is kubectl muster ui still running? What you see may be old.';
    }
    onChange();
    if (Date.now() - began > 30000) pause = 1000;
    await new Promise((resume) => setTimeout(resume, pause));
  }
}
