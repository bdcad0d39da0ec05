// History: what GPUs were used for, by day.
import {disruptions, tables} from './data.js';
import {isForbidden, jobLink} from './cluster.js';
import {h, part, show, table} from './dom.js';
import {ago, clock, duration, gpus, hours, now, sentence} from './format.js';

const kParts = ['useful', 'starting', 'saving', 'idle', 'lost'];
// starts: jobs that were admitted for the first time; waited: for how long all of them had waited, in seconds.
const kSums = ['held', 'cost', 'starts', 'waited', 'longest'];
let who = 'all';
let days = 30;

// GPU-seconds of one day: {held, useful, starting, …}. What is not one of the others was useful.
export function partsOf(day) {
  const sum = {};
  for (const name of kSums) sum[name] = day?.[name] ?? 0;
  for (const name of kParts.slice(1)) sum[name] = day?.[name] ?? 0;
  sum.useful = Math.max(0, sum.held - sum.starting - sum.saving - sum.idle - sum.lost);
  return sum;
}

export function added(a, b) {
  const sum = {};
  for (const name of [...kSums, ...kParts]) sum[name] = (a[name] ?? 0) + (b[name] ?? 0);
  sum.longest = Math.max(a.longest ?? 0, b.longest ?? 0);
  return sum;
}

// The last `count` days in UTC, oldest first.
export function lastDays(count, today = Date.now()) {
  return Array.from({length: count}, (_, i) => new Date(today - (count - 1 - i) * 86400000).toISOString().slice(0, 10));
}

const usageOf = (kind, name) => tables.usage.get(`${kind}/${name}`);

function chosenUsages() {
  if (who !== 'all') return [tables.usage.get(who)].filter(Boolean);
  return [...tables.usage].filter(([key]) => key.startsWith('project/')).map(([, usage]) => usage);
}

function chart(dates, byDay) {
  const most = Math.max(1, ...byDay.map((d) => d.held));
  const width = 100 / dates.length;
  const bars = byDay.map((day, i) => {
    let top = 100;
    const text = `${dates[i]}: ${hours(day.held)} GPU-hours. ${kParts.filter((p) => day[p] > 0).map((p) => `${p} ${hours(day[p])}`).join(', ')}`;
    return h('g', null, h('title', null, text), kParts.map((part) => {
      const height = (100 * day[part]) / most;
      top -= height;
      return height > 0 && h('rect', {class: `use-${part}`, x: i * width + width * 0.12, y: top, width: width * 0.76, height});
    }), h('rect', {class: 'hit', x: i * width, y: 0, width, height: 100}));
  });
  return h('figure', null,
    h('p', {class: 'small'}, `GPU-hours a day; the highest bar is ${hours(most)}`),
    h('svg', {class: 'chart', viewBox: '0 0 100 100', preserveAspectRatio: 'none', role: 'img',
      'aria-label': `GPU-hours by day, from ${dates[0]} to ${dates.at(-1)}; the tables below have the numbers`}, bars),
    h('p', {class: 'axis small', 'aria-hidden': 'true'}, h('span', null, dates[0]), h('span', null, dates.at(-1))),
    h('ul', {class: 'legend'}, kParts.map((part) => h('li', null, h('span', {class: `swatch use-${part}`}), part))));
}

// Where a NodePool states a price, there is a cost.
const hasCost = () => [...tables.usage.values()].some((usage) => Object.values(usage.days ?? {}).some((day) => day.cost));

const kColumns = (first) => [{name: first, class: 'name'}, {name: 'GPU-hours', class: 'number'},
  ...kParts.map((p) => ({name: p[0].toUpperCase() + p.slice(1), class: 'number'})), {name: 'Useful part', class: 'number'},
  {name: 'Jobs started', class: 'number'}, {name: 'Waited on average', class: 'number'}, {name: 'Longest wait', class: 'number'},
  ...(hasCost() ? [{name: 'Cost', class: 'number'}] : [])];

const cells = (name, sum) => [name, hours(sum.held), ...kParts.map((p) => hours(sum[p])),
  sum.held > 0 ? `${Math.round((100 * sum.useful) / sum.held)} %` : '–',
  String(sum.starts), sum.starts > 0 ? duration(sum.waited / sum.starts) : '–', sum.starts > 0 ? duration(sum.longest) : '–',
  ...(hasCost() ? [(sum.cost / 1000).toFixed(2)] : [])];

const total = (usage, dates) => dates.reduce((sum, date) => added(sum, partsOf(usage.days?.[date])), partsOf());

// What the pools had, and of that what nobody held.
function poolRows(dates) {
  return [...tables.pools].filter(([, pool]) => pool.days).sort((a, b) => a[0].localeCompare(b[0])).map(([name, pool]) => {
    const sum = (part) => dates.reduce((n, date) => n + (pool.days[date]?.[part] ?? 0), 0);
    const [had, free] = [sum('had'), sum('unallocated')];
    return [name, hours(had), hours(free), had > 0 ? `${Math.round((100 * free) / had)} %` : '–'];
  });
}

// What jobs of one Project had to give. It is asked for when somebody looks at the Project, and again after a while.
let taken = {namespace: '', at: 0, asking: false, list: null, problem: ''};

async function askTaken(namespace, redraw) {
  const mine = taken = {namespace, at: now(), asking: true, list: taken.namespace === namespace ? taken.list : null, problem: ''};
  try {
    mine.list = await disruptions(namespace);
  } catch (error) {
    mine.problem = error.message;
  }
  mine.asking = false;
  redraw();
}

function losses(redraw) {
  if (!who.startsWith('project/')) return h('p', {class: 'small'}, 'Choose a project to see who took GPUs from its jobs.');
  const namespace = tables.projects.get(who.slice('project/'.length))?.namespace;
  if (!namespace) return null;
  if (!taken.asking && (taken.namespace !== namespace || now() - taken.at > 15)) askTaken(namespace, redraw);
  const heading = h('h3', null, 'What its jobs had to give');
  if (taken.problem) return [heading, h('p', null, `This cannot be shown: ${sentence(taken.problem)}`)];
  if (!taken.list) return [heading, h('p', null, 'Loading…')];
  if (taken.list.length === 0) return [heading, h('p', null, 'Nothing was taken from its jobs, as far as is remembered.')];
  const [rows, more] = part('taken', taken.list, redraw, 50);
  const columns = [{name: 'When'}, {name: 'Job', class: 'name'}, {name: 'User'}, {name: 'Why', class: 'text'}, {name: 'GPUs given', class: 'number'},
    {name: 'GPU time it cost', class: 'number'}];
  return [heading, table('What its jobs had to give', columns, rows.map((d) => [
    h('span', {title: clock(d.at)}, ago(d.at)),
    tables.jobs.has(`${namespace}/${d.job}`) ? h('a', {href: jobLink(`${namespace}/${d.job}`)}, d.job) : `${d.job} (gone)`,
    d.user || '–', `${d.reason}: ${sentence(d.message)}`, gpus(d.gave), duration(d.cost)])), more];
}

function choices(redraw) {
  const option = (value, name) => h('option', {value, selected: value === who}, name);
  const names = (kind, list) => [...list.keys()].filter((n) => usageOf(kind, n)).sort()
    .map((n) => option(`${kind}/${n}`, `${kind === 'queue' ? 'Queue' : 'Project'} ${n}`));
  return h('p', {class: 'tools'},
    h('label', null, 'Of ', h('select', {value: who, onchange: (e) => { location.hash = e.target.value === 'all' ? '#/history' : `#/history/${e.target.value}`; }},
      option('all', 'all projects'), names('queue', tables.queues), names('project', tables.projects))),
    h('label', null, 'Days ', h('select', {value: String(days), onchange: (e) => { days = Number(e.target.value); redraw(); }},
      [7, 30].map((n) => h('option', {value: String(n), selected: n === days}, `the last ${n}`)))));
}

export function history(root, parts, redraw) {
  const heading = h('h2', null, 'History');
  if (isForbidden('projects') && isForbidden('queues')) {
    show(root, heading, h('p', null, 'It needs the right to read Projects and Queues, which you do not have.'));
    return;
  }
  if (tables.usage.size === 0) {
    show(root, heading, h('p', null, 'The operator has counted nothing yet: no Queue and no Project has a usage in its status.'));
    return;
  }
  who = parts.length === 2 && tables.usage.has(parts.join('/')) ? parts.join('/') : 'all';
  const dates = lastDays(days);
  const usages = chosenUsages();
  const byDay = dates.map((date) => usages.reduce((sum, usage) => added(sum, partsOf(usage.days?.[date])), partsOf()));
  const projects = [...tables.projects.keys()].filter((name) => usageOf('project', name))
    .map((name) => [name, total(usageOf('project', name), dates)]).sort((a, b) => b[1].held - a[1].held || a[0].localeCompare(b[0]));
  const until = Math.max(0, ...usages.map((u) => u.until ?? 0));
  const daily = dates.map((date, i) => [date, byDay[i]]).filter(([, sum]) => sum.held > 0 || sum.starts > 0).reverse();
  const pools = poolRows(dates);
  show(root, heading, choices(redraw), chart(dates, byDay),
    h('h3', null, `Projects, in the last ${days} days`), table('Projects', kColumns('Project'), projects.map(([name, sum]) => cells(h('a', {href: `#/history/project/${encodeURIComponent(name)}`}, name), sum))),
    pools.length > 0 && [h('h3', null, `Pools, in the last ${days} days`), table('Pools', [{name: 'Pool', class: 'name'},
      {name: 'GPU-hours there', class: 'number'}, {name: 'Unallocated', class: 'number'}, {name: 'Unallocated part', class: 'number'}], pools)],
    h('h3', null, `Days of ${who === 'all' ? 'all projects' : who.replace('/', ' ')}`), table('Days', kColumns('Day'), daily.map(([date, sum]) => cells(date, sum))),
    losses(redraw),
    h('p', {class: 'small'}, `All in GPU-hours, days in UTC.${until ? ` Counted until ${clock(until)}.` : ''} Starting: from admission until all pods were ready. Saving: by pods that were told to go. Idle: nothing ran on the GPUs. Lost: work that was done and thrown away. Useful: the rest. Waits are those of jobs that were admitted for the first time, from when they were made.`));
}
