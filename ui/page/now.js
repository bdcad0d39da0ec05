// Now: how many GPUs there are, what they do, and who has them.
import {tables} from './data.js';
import {defaultPool, isForbidden, isHolding, kUses, shareIn, useOf} from './cluster.js';
import {h, show} from './dom.js';
import {gpus, plural} from './format.js';

const kWords = {useful: 'useful', starting: 'starting', saving: 'saving', idle: 'idle', others: 'others'};

function totals() {
  const sum = {capacity: 0, free: 0, useful: 0, starting: 0, saving: 0, idle: 0, wanted: 0, waiting: 0, running: 0};
  for (const pool of tables.pools.values()) {
    sum.capacity += pool.capacity ?? 0;
    sum.free += pool.free ?? 0;
  }
  for (const job of tables.jobs.values()) {
    if (isHolding(job)) {
      sum[useOf(job)] += job.gpus;
      sum.running += 1;
    }
    if (job.phase === 'Queued') {
      sum.wanted += job.wants ?? 0;
      sum.waiting += 1;
    }
  }
  sum.held = kUses.reduce((all, use) => all + sum[use], 0);
  // Other pods, and jobs that may not be read, hold GPUs too.
  sum.others = Math.max(0, sum.capacity - sum.free - sum.held);
  // Pools are counted anew less often than jobs.
  sum.free = Math.max(0, sum.capacity - sum.held - sum.others);
  return sum;
}

function figure(label, value, detail) {
  return h('div', {class: 'figure'}, h('dt', null, label), h('dd', null, h('strong', null, value), h('span', null, detail)));
}

function usesBar(sum) {
  const whole = Math.max(sum.capacity, sum.held);
  if (whole === 0) return null;
  let at = 0;
  const rects = [...kUses, 'others'].map((use) => {
    const width = (100 * sum[use]) / whole;
    at += width;
    return h('rect', {class: `use-${use}`, x: at - width, y: 0, width, height: 10});
  });
  const parts = [...kUses, 'others'].filter((use) => sum[use] > 0);
  const text = parts.map((use) => `${gpus(sum[use])} ${kWords[use]}`).join(', ') || 'none is held';
  return [
    h('svg', {class: 'bar tall', viewBox: '0 0 100 10', preserveAspectRatio: 'none', role: 'img',
              'aria-label': `Of ${gpus(whole)} GPUs: ${text}`},
      h('rect', {class: 'track', x: 0, y: 0, width: 100, height: 10}), rects),
    h('ul', {class: 'legend'}, parts.map((use) =>
      h('li', null, h('span', {class: `swatch use-${use}`}), `${kWords[use]} ${gpus(sum[use])}`)),
      sum.capacity > 0 && h('li', null, h('span', {class: 'swatch track'}), `free ${gpus(sum.free)}`)),
  ];
}

// What a gang of pods that each fit one node could have at once; the pool where that is most comes first.
function largestGang() {
  const most = [...tables.pools].sort((a, b) => (b[1].largestGang ?? 0) - (a[1].largestGang ?? 0)).slice(0, 3)
    .map(([name, pool]) => [gpus(pool.largestGang ?? 0), `in ${name}`]);
  return figure('Largest gang that could start', most[0][0],
    [most[0][1], ...most.slice(1).map((words) => words.join(' '))].join(', '));
}

function figures(sum) {
  const share = (part) => (sum.held > 0 ? `${Math.round((100 * part) / sum.held)} % of what jobs hold` : '');
  const given = sum.capacity - sum.free;
  return h('dl', {class: 'figures'},
    tables.pools.size > 0
      ? figure('GPUs allocated', gpus(given), `of ${gpus(sum.capacity)}`)
      : figure('GPUs allocated', gpus(sum.held), `by ${plural(sum.running, 'job')}`),
    !isForbidden('jobs') && [
      figure('Useful', gpus(sum.useful), share(sum.useful)),
      figure('Idle', gpus(sum.idle), share(sum.idle)),
      figure('Starting', gpus(sum.starting), share(sum.starting)),
      figure('Asked for by what waits', gpus(sum.wanted), `by ${plural(sum.waiting, 'job')}`),
    ],
    tables.pools.size > 0 && largestGang());
}

// Queues with what is below them; then what hangs nowhere. [{name, depth, kind, row}]
export function treeOf(queues, projects) {
  const below = new Map();
  const put = (parent, item) => below.set(parent, [...(below.get(parent) ?? []), item]);
  for (const [name, row] of queues) put(row.parent ?? '', {name, kind: 'Queue', row});
  for (const [name, row] of projects) put(row.queue ?? '', {name, kind: 'Project', row});
  const lines = [];
  const seen = new Set();
  const walk = (parent, depth) => {
    for (const item of below.get(parent) ?? []) {
      if (item.kind === 'Project') { lines.push({...item, depth}); continue; }
      if (seen.has(item.name)) continue;
      seen.add(item.name);
      lines.push({...item, depth});
      walk(item.name, depth + 1);
    }
  };
  walk('', 0);
  for (const parent of below.keys()) {
    if (parent === '' || seen.has(parent)) continue;
    if (!queues.has(parent)) lines.push({name: parent, kind: 'missing', row: {}, depth: 0});
    else { lines.push({name: parent, kind: 'Queue', row: queues.get(parent), depth: 0}); seen.add(parent); }
    walk(parent, 1);
  }
  return lines;
}

function shareBar(s, whole) {
  const x = (amount) => Math.min(100, (100 * amount) / whole);
  const own = s.used - s.borrowed;
  return h('svg', {class: 'bar', viewBox: '0 0 100 10', preserveAspectRatio: 'none', role: 'img',
    'aria-label': `uses ${gpus(s.used)}, borrowed ${gpus(s.borrowed)}, quota ${gpus(s.quota)}, fair share ${gpus(s.fair)}, waiting ${gpus(s.pending)}`},
    h('rect', {class: 'track', x: 0, y: 0, width: 100, height: 10}),
    h('rect', {class: 'quota', x: 0, y: 0, width: x(s.quota), height: 10}),
    h('rect', {class: 'used', x: 0, y: 2, width: x(own), height: 6}),
    h('rect', {class: 'borrowed', x: x(own), y: 2, width: x(s.used) - x(own), height: 6}),
    h('rect', {class: 'pending', x: x(s.used), y: 4, width: x(s.used + s.pending) - x(s.used), height: 2}),
    s.fair > 0 && h('rect', {class: 'fair', x: Math.max(0, x(s.fair) - 0.4), y: 0, width: 0.8, height: 10}));
}

let pool = '';
const closed = new Set();

function poolChoice(redraw) {
  const names = [...tables.pools.keys()];
  for (const row of [...tables.queues.values(), ...tables.projects.values()])
    for (const name of Object.keys(row.pools ?? {})) if (!names.includes(name)) names.push(name);
  if (names.length < 2) return null;
  const chosen = pool || defaultPool();
  return h('label', null, 'Pool ', h('select', {value: chosen, onchange: (e) => { pool = e.target.value; redraw(); }},
    names.sort().map((name) => h('option', {value: name, selected: name === chosen}, name))));
}

function visible(lines) {
  const list = [];
  let hiddenBelow = Infinity;
  for (const line of lines) {
    if (line.depth > hiddenBelow) continue;
    hiddenBelow = line.kind === 'Queue' && closed.has(line.name) ? line.depth : Infinity;
    list.push(line);
  }
  return list;
}

function nameCell(line, redraw) {
  const indent = `depth-${Math.min(line.depth, 6)}`;
  if (line.kind === 'missing') return h('span', {class: indent}, `${line.name} (missing)`);
  if (line.kind === 'Project') return h('span', {class: indent}, line.name);
  const isClosed = closed.has(line.name);
  const toggle = () => { if (isClosed) closed.delete(line.name); else closed.add(line.name); redraw(); };
  return h('span', {class: indent},
    h('button', {type: 'button', class: 'fold', 'aria-expanded': isClosed ? 'false' : 'true', onclick: toggle},
      h('span', {'aria-hidden': 'true'}, isClosed ? '▸ ' : '▾ '), line.name),
    line.row.admission && h('span', {class: 'tag'}, line.row.admission));
}

function tree(redraw) {
  const lines = treeOf(tables.queues, tables.projects);
  if (lines.length === 0) {
    const unread = isForbidden('queues') && isForbidden('projects');
    return unread ? null : h('p', null, 'There are no Queues and no Projects.');
  }
  const shares = lines.map((line) => shareIn(line.row, pool));
  const whole = Math.max(1, ...shares.map((s) => Math.max(s.quota, s.used + s.pending, s.fair)));
  const columns = ['Quota', 'Fair share', 'Used', 'Waiting', 'Jobs'];
  const body = visible(lines.map((line, i) => ({...line, share: shares[i]}))).map((line) => h('tr', {class: line.kind},
    h('th', {scope: 'row'}, nameCell(line, redraw)),
    h('td', {class: 'bars'}, line.kind !== 'missing' && shareBar(line.share, whole)),
    h('td', {class: 'number'}, gpus(line.share.quota)),
    h('td', {class: 'number wide'}, gpus(line.share.fair)),
    h('td', {class: 'number'}, gpus(line.share.used)),
    h('td', {class: 'number'}, gpus(line.share.pending)),
    h('td', {class: 'number wide'}, `${line.row.running ?? 0} / ${line.row.waiting ?? 0}`)));
  return h('section', null, h('h2', null, 'Who has them'), poolChoice(redraw),
    h('table', {class: 'tree'}, h('caption', {class: 'unseen'}, 'Queues and Projects, in GPUs'),
      h('thead', null, h('tr', null, h('th', {scope: 'col'}, 'Queue or Project'), h('th', {scope: 'col', class: 'bars'}, h('span', {class: 'unseen'}, 'Shares')),
        columns.map((name) => h('th', {scope: 'col', class: `number ${name === 'Jobs' || name === 'Fair share' ? 'wide' : ''}`},
          name === 'Jobs' ? 'Run / wait' : name)))),
      h('tbody', null, body)),
    h('ul', {class: 'legend'},
      h('li', null, h('span', {class: 'swatch used'}), 'used'),
      h('li', null, h('span', {class: 'swatch borrowed'}), 'borrowed, beyond quota'),
      h('li', null, h('span', {class: 'swatch pending'}), 'waiting'),
      h('li', null, h('span', {class: 'swatch quota'}), 'quota'),
      h('li', null, h('span', {class: 'swatch fair'}), 'fair share')));
}

export function now(root, parts, redraw) {
  const sum = totals();
  show(root, h('section', null, h('h2', null, 'GPUs now'), figures(sum), usesBar(sum)), tree(redraw));
}
