// Queue: what waits, in the order in which it is served, and why.
import {connection, tables} from './data.js';
import {isForbidden, jobLink, projectOf} from './cluster.js';
import {h, part, show, table} from './dom.js';
import {duration, gpus, now, plural, until} from './format.js';

let wanted = '';

// By pool and position; what has no position comes last.
export function inOrder(jobs) {
  const rank = ([, j]) => (j.position ? 0 : 1);
  return [...jobs].filter(([, j]) => j.phase === 'Queued').sort((a, b) =>
    rank(a) - rank(b) || (a[1].pool ?? '').localeCompare(b[1].pool ?? '') ||
    (a[1].position ?? 0) - (b[1].position ?? 0) || a[0].localeCompare(b[0]));
}

const kColumns = [
  {name: 'Position', class: 'number'}, {name: 'Job', class: 'name'}, {name: 'Project'}, {name: 'Pool'}, {name: 'GPUs', class: 'number'},
  {name: 'Why it waits', class: 'text'}, {name: 'Likely start'}, {name: 'Waits'}];

function cells([key, job]) {
  return [
    job.position ? String(job.position) : '–',
    h('a', {href: jobLink(key)}, key),
    projectOf(key, connection.version),
    job.pool ?? '(default)',
    job.wants ? gpus(job.wants) : '–',
    h('span', null, h('strong', null, job.reason ?? 'not judged yet'), job.message ? ` ${job.message}` : ''),
    job.eta ? until(job.eta) : 'not known',
    job.created ? duration(now() - job.created) : '',
  ];
}

export function queue(root, parts, redraw) {
  if (isForbidden('jobs')) { show(root, h('h2', null, 'What waits'), h('p', null, 'You may not read TrainingJobs.')); return; }
  const all = inOrder(tables.jobs);
  const fits = ([key, job]) => `${key} ${projectOf(key, connection.version)} ${job.pool ?? ''} ${job.reason ?? ''}`
    .toLowerCase().includes(wanted.toLowerCase());
  const found = wanted ? all.filter(fits) : all;
  const [rows, more] = part('queue', found, redraw);
  show(root, h('h2', null, 'What waits'),
    all.length === 0 ? h('p', null, 'Nothing waits.') : [
      h('p', {class: 'tools'},
        h('label', null, 'Find ', h('input', {type: 'search', value: wanted, placeholder: 'job, project, pool or reason',
          oninput: (e) => { wanted = e.target.value; redraw(); }})),
        h('span', null, wanted ? `${found.length} of ${plural(all.length, 'job')}` : plural(all.length, 'job'))),
      rows.length > 0 && table('Jobs that wait, in order', kColumns, rows.map(cells)), more,
      h('p', {class: 'small'}, 'The likely start rests on the maxRuntime of what runs, or on how long such jobs ran before, and does not look at what comes until then.')]);
}
