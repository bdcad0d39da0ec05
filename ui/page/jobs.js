// Jobs: a list of all, and one of them in full.
import {connection, jobDetails, tables} from './data.js';
import {isForbidden, jobLink, projectOf} from './cluster.js';
import {h, part, show, table} from './dom.js';
import {ago, clock, duration, gpus, now, plural, sentence, until} from './format.js';

let wanted = '';

const kColumns = [{name: 'Job', class: 'name'}, {name: 'Project'}, {name: 'Phase'}, {name: 'GPUs', class: 'number'},
                  {name: 'Pods ready'}, {name: 'Since'}];
const kOrder = ['Starting', 'Running', 'Resizing', 'Checkpointing', 'Queued', 'Suspended', 'Failed', 'Succeeded'];

const stateOf = (job) => `${job.phase ?? 'new'}${job.idle ? ', idle' : ''}`;

function list(root, redraw) {
  if (isForbidden('jobs')) { show(root, h('h2', null, 'Jobs'), h('p', null, 'You may not read TrainingJobs.')); return; }
  const fits = ([key, job]) => `${key} ${projectOf(key, connection.version)} ${stateOf(job)}`.toLowerCase().includes(wanted.toLowerCase());
  const found = [...tables.jobs].filter(fits).sort((a, b) =>
    kOrder.indexOf(a[1].phase) - kOrder.indexOf(b[1].phase) || (b[1].created ?? 0) - (a[1].created ?? 0) || a[0].localeCompare(b[0]));
  const [rows, more] = part('jobs', found, redraw);
  const cells = ([key, job]) => [
    h('a', {href: jobLink(key)}, key), projectOf(key, connection.version), stateOf(job),
    gpus(job.gpus ?? job.wants), job.pods ?? '', since(job)];
  show(root, h('h2', null, 'Jobs'),
    h('p', {class: 'tools'},
      h('label', null, 'Find ', h('input', {type: 'search', value: wanted, placeholder: 'job, project, phase or idle',
        oninput: (e) => { wanted = e.target.value; redraw(); }})),
      h('span', null, wanted ? `${found.length} of ${plural(tables.jobs.size, 'job')}` : plural(tables.jobs.size, 'job'))),
    rows.length > 0 && table('Jobs', kColumns, rows.map(cells)), more);
}

function since(job) {
  const then = job.finished ?? (job.gpus ? job.started : undefined) ?? job.created;
  return then ? ago(then) : '';
}

// One job. Its details are asked for again when its row has changed, and at most every two seconds.
let looked = {key: '', version: '', at: 0, asking: false, details: null, problem: ''};

async function look(namespace, name, version, redraw) {
  const mine = looked;
  mine.asking = true;
  mine.version = version;
  mine.at = now();
  try {
    mine.details = await jobDetails(namespace, name);
    mine.problem = '';
  } catch (error) {
    mine.problem = error.message;
  }
  mine.asking = false;
  redraw();
}

function keepLooking(namespace, name, redraw) {
  const key = `${namespace}/${name}`;
  if (looked.key !== key) looked = {key, version: '', at: 0, asking: false, details: null, problem: ''};
  const version = tables.jobs.get(key)?.version ?? 'gone';
  // Pods and events change without the job.
  const isOld = now() - looked.at > 15;
  if (looked.asking || (looked.version === version && !isOld)) return;
  const early = 2 - (now() - looked.at);
  if (early <= 0) look(namespace, name, version, redraw);
  else { looked.asking = true; setTimeout(() => { looked.asking = false; redraw(); }, early * 1000); }
}

// What the status says of the past, newest first. [seconds, words, detail]
export function timeline(job) {
  const list = [];
  const put = (at, what, detail = '') => { if (at) list.push([at, what, detail]); };
  put(job.created, 'Created');
  put(job.admitted, `Admitted, attempt ${job.attempt}`, job.pool && `pool ${job.pool}`);
  put(job.resized, 'Changed its size');
  put(job.started, 'Ran whole', `attempt ${job.attempt}`);
  for (const at of job.failures) put(at, 'Its program failed');
  for (const d of job.disruptions)
    put(d.at, d.reason, `${sentence(d.message)} It gave ${gpus(d.gave)} GPUs, which cost ${duration(d.cost)} of GPU time.`);
  if (job.checkpoint) put(job.checkpoint.at, `Saved step ${job.checkpoint.step}`, job.checkpoint.uri);
  const told = {Failed: 'Failed', Complete: 'Complete', Evicted: 'Had to give its place back', Suspended: 'Suspended',
                Idle: 'Idle', EndsSoon: 'Ends soon', Stalled: 'Stalled'};
  for (const c of job.conditions)
    if (c.status === 'True' && told[c.type] && !(c.type === 'Evicted' && job.disruptions.some((d) => Math.abs(d.at - c.at) < 3)))
      put(c.at, told[c.type], c.message || c.reason);
  if (job.finished && !job.conditions.some((c) => c.status === 'True' && (c.type === 'Failed' || c.type === 'Complete')))
    put(job.finished, 'Ended');
  put(job.deleted, 'Deletion was asked for');
  return list.map((entry, i) => [...entry, i]).sort((a, b) => b[0] - a[0] || b[3] - a[3]).map((e) => e.slice(0, 3));
}

function why(job) {
  const q = job.queue;
  if (!q) return null;
  const place = q.position ? `It is number ${q.position} in the order of its pool${q.projectPosition ? `, and number ${q.projectPosition} of its project` : ''}. ` : '';
  const premise =
    q.etaFrom === 'History' ? 'takes as long as such jobs took before' : 'ends when it says';
  const start = q.eta ? `It is likely to start ${until(q.eta)}, if what runs ${premise}. ` : '';
  return h('section', null, h('h3', null, 'Why it waits'),
    h('p', null, h('strong', null, q.reason || 'It was not judged yet'), q.message ? `: ${sentence(q.message)} ` : '. ', place, start),
    q.helps && h('p', null, h('strong', null, 'What would help: '), `${q.helps}.`),
    q.blocking.length > 0 && table('What is lacking', [{name: 'Resource'}, {name: 'Pool'}, {name: 'Needs', class: 'number'}, {name: 'Has', class: 'number'}, {name: 'Held by', class: 'text'}],
      q.blocking.map((b) => [b.resource, b.pool, b.need, b.have, b.by.join(', ')])));
}

function pods(details, redraw) {
  const places = new Map(details.job.places.map((p) => [`${p.role}/${p.index}`, p]));
  if (details.podsProblem) return h('p', null, `Its pods cannot be shown: ${sentence(details.podsProblem)}`);
  const rank = (p) => places.get(`${p.role}/${p.index}`)?.rank ?? Infinity;
  const sorted = [...details.pods].sort((a, b) => rank(a) - rank(b) || a.name.localeCompare(b.name));
  const existing = new Set(sorted.map((p) => `${p.role}/${p.index}`));
  const coming = details.job.places.filter((p) => !existing.has(`${p.role}/${p.index}`));
  const [rows, more] = part(`pods-${looked.key}`, [...sorted, ...coming], redraw);
  if (rows.length === 0) return h('p', null, 'It has no pods now.');
  const columns = [{name: 'Rank', class: 'number'}, {name: 'Role'}, {name: 'Pod', class: 'name'}, {name: 'Node'}, {name: 'GPUs'}, {name: 'State', class: 'text'}];
  return [table('Pods', columns, rows.map((p) => {
    const place = places.get(`${p.role}/${p.index}`);
    const state = p.name === undefined ? 'not there yet'
      : [p.leaving ? 'leaving' : p.phase, p.ready ? 'ready' : '', p.restarts ? plural(p.restarts, 'restart') : '', p.reason, p.message].filter(Boolean).join(', ');
    return [String(place?.rank ?? '–'), `${p.role} ${p.index}`, p.name ?? '–', p.node || '–', place?.gpus.join(' ') || '–', state];
  })), more];
}

function events(details) {
  if (details.eventsProblem) return h('p', null, `Its events cannot be shown: ${sentence(details.eventsProblem)}`);
  if (details.events.length === 0) return h('p', null, 'There are no events about it.');
  return table('Events', [{name: 'When'}, {name: 'What', class: 'name'}, {name: 'Message', class: 'text'}], details.events.map((e) =>
    [e.at ? ago(e.at) : '', `${e.reason}${e.count > 1 ? ` ×${e.count}` : ''}`, e.message]));
}

function facts(job, key) {
  const list = [
    ['Phase', job.phase || 'not looked at yet: is the operator running?'],
    ['Project', projectOf(key, connection.version)],
    ['GPUs', job.gpus ? `holds ${gpus(job.gpus)} in pool ${job.pool}` : job.wants ? `asks for ${gpus(job.wants)}` : 'none'],
    ['Pods ready', job.podsReady],
    ['Roles', job.roles.map((r) => `${r.name} × ${r.least === r.most ? r.least : `${r.least} to ${r.most}`}`).join(', ')],
    ['Mode', `${job.mode}, ${job.preemptible ? 'preemptible' : 'non-preemptible'}${job.priorityClass ? `, priority ${job.priorityClass}` : ''}`],
    ['Time limit', job.maxRuntime],
    ['Disturbed', job.disruptions.length > 0 && `${plural(job.disruptions.length, 'time')}; ${duration(job.lost)} of GPU time lost in its life`],
    ['Program failed', job.restarts > 0 && plural(job.restarts, 'time')],
    ['Tries again', job.retryAt && job.retryAt > now() && until(job.retryAt)],
  ];
  return h('dl', {class: 'facts'}, list.filter(([, value]) => value).map(([name, value]) => [h('dt', null, name), h('dd', null, value)]));
}

function one(root, namespace, name, redraw) {
  const key = `${namespace}/${name}`;
  keepLooking(namespace, name, redraw);
  const back = h('p', null, h('a', {href: '#/job'}, 'All jobs'));
  const head = h('h2', null, key);
  const {details, problem} = looked;
  if (!details) { show(root, back, head, h('p', null, problem || 'Loading…')); return; }
  const {job} = details;
  show(root, back, head, problem && h('p', {class: 'note'}, `What you see may be old: ${sentence(problem)}`),
    facts(job, key), why(job),
    h('section', null, h('h3', null, 'What happened'), table('What happened', [{name: 'When'}, {name: 'What', class: 'name'}, {name: 'Detail', class: 'text'}],
      timeline(job).map(([at, what, detail]) => [h('time', {title: ago(at)}, clock(at)), what, detail]))),
    h('section', null, h('h3', null, 'Pods and ranks'), pods(details, redraw)),
    h('section', null, h('h3', null, 'Events'), events(details)));
}

export function jobs(root, parts, redraw) {
  if (parts.length >= 2) one(root, parts[0], parts[1], redraw);
  else list(root, redraw);
}
