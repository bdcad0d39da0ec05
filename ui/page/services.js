// Services: how many replicas there are, how many are wanted, and by which load.
import {connection, serviceSamples, tables} from './data.js';
import {isForbidden, projectOf} from './cluster.js';
import {h, part, show, table} from './dom.js';
import {clock, duration, gpus, now, sentence, until} from './format.js';

const kColumns = [{name: 'Service', class: 'name'}, {name: 'Project'}, {name: 'Ready', class: 'number'}, {name: 'Wanted', class: 'number'},
                  {name: 'There', class: 'number'}, {name: 'GPUs', class: 'number'}, {name: 'Load', class: 'text'}, {name: 'State', class: 'text'}];

function load(service) {
  if (!service.metric) return 'a fixed number of replicas';
  const said = service.conditions?.ScalingActive;
  return [`${service.metric}, ${service.target} for each replica, ${service.least} to ${service.most ?? service.least} replicas.`,
    said?.message ?? 'Not read yet.'].join(' ');
}

function state(service) {
  const list = [];
  const ready = service.conditions?.Ready;
  if (ready) list.push(ready.true ? 'Ready.' : `Not ready: ${sentence(ready.message ?? ready.reason)}`);
  const rollout = service.conditions?.RolledOut;
  if (rollout && !rollout.true) list.push(sentence(rollout.message ?? rollout.reason));
  if (service.reason) list.push(sentence(`A replica waits: ${service.reason}${service.message ? `, ${service.message}` : ''}`));
  if (service.eta) list.push(`It is likely to start ${until(service.eta)}.`);
  return list.join(' ');
}

// What one service had over time. It is asked for when its row has changed, and at most every two seconds.
let looked = {key: '', row: null, at: 0, asking: false, samples: null, problem: ''};

async function look(key, redraw) {
  const mine = looked;
  Object.assign(mine, {asking: true, row: tables.services.get(key), at: now()});
  try {
    const slash = key.indexOf('/');
    mine.samples = await serviceSamples(key.slice(0, slash), key.slice(slash + 1));
    mine.problem = '';
  } catch (error) {
    mine.problem = error.message;
  }
  mine.asking = false;
  redraw();
}

// Steps from each sample to the next, the last one until now: [x, y] in per cent.
export function steps(samples, value, from, to, most) {
  const x = (at) => (100 * (at - from)) / Math.max(1, to - from);
  const points = [];
  samples.forEach((sample, i) => {
    const y = 100 - (100 * value(sample)) / most;
    points.push([x(sample[0]), y], [x(samples[i + 1]?.[0] ?? to), y]);
  });
  return points;
}

const line = (points) => `M${points.map(([x, y]) => `${x.toFixed(2)},${y.toFixed(2)}`).join('L')}`;

function chart(samples, name, lines) {
  const from = samples[0][0];
  const to = now();
  const most = Math.max(1, ...samples.flatMap((s) => lines.map((l) => l.value(s))));
  return h('figure', null,
    h('p', {class: 'small'}, `${name}, for ${duration(to - from)}; the top is ${most.toLocaleString('en')}`),
    h('svg', {class: 'chart lines', viewBox: '0 0 100 100', preserveAspectRatio: 'none', role: 'img',
      'aria-label': `${name} since ${clock(from)}; the table below has the numbers`},
    lines.map((l) => h('path', {class: l.class, d: line(steps(samples, l.value, from, to, most))}))),
    h('p', {class: 'axis small', 'aria-hidden': 'true'}, h('span', null, clock(from)), h('span', null, 'now')),
    h('ul', {class: 'legend'}, lines.map((l) => h('li', null, h('span', {class: `swatch ${l.class}`}), l.name))));
}

function past(samples, redraw) {
  const withLoad = samples.filter((s) => s[4] !== null);
  const hasLoad = withLoad.length > 0;
  const columns = [{name: 'Since'}, {name: 'Ready', class: 'number'}, {name: 'Wanted', class: 'number'}, {name: 'GPUs', class: 'number'},
    ...(hasLoad ? [{name: 'Load', class: 'number'}] : [])];
  const [rows, more] = part('samples', [...samples].reverse(), redraw, 50);
  return [
    chart(samples, 'Replicas', [{name: 'ready', class: 'line-a', value: (s) => s[1]}, {name: 'wanted', class: 'line-b', value: (s) => s[2]}]),
    hasLoad && chart(withLoad, 'Load of all replicas', [{name: 'load', class: 'line-a', value: (s) => s[4] / 1000}]),
    table('What it had', columns, rows.map((s) => [clock(s[0]), String(s[1]), String(s[2]), gpus(s[3]),
      ...(hasLoad ? [s[4] === null ? '–' : (s[4] / 1000).toLocaleString('en')] : [])])), more];
}

function one(root, key, redraw) {
  if (looked.key !== key) looked = {key, row: null, at: 0, asking: false, samples: null, problem: ''};
  const row = tables.services.get(key);
  if (!looked.asking && (row !== looked.row || now() - looked.at > 15) && now() - looked.at > 2) look(key, redraw);
  show(root, h('p', null, h('a', {href: '#/services'}, 'All services')), h('h2', null, key),
    row ? [h('p', null, load(row)), h('p', null, state(row))] : h('p', null, 'There is no such service, or you may not read it.'),
    looked.problem && h('p', null, `Its past cannot be shown: ${sentence(looked.problem)}`),
    looked.samples?.length > 0 && past(looked.samples, redraw),
    h('p', {class: 'small'}, 'Since the server of this page watches the cluster, the latest 500 changes.'));
}

export function services(root, parts, redraw) {
  const heading = h('h2', null, 'Services');
  if (isForbidden('services')) { show(root, heading, h('p', null, 'You may not read InferenceServices.')); return; }
  if (parts.length === 2) { one(root, parts.join('/'), redraw); return; }
  const all = [...tables.services].sort((a, b) => a[0].localeCompare(b[0]));
  const [rows, more] = part('services', all, redraw);
  show(root, heading, rows.length === 0 ? h('p', null, 'There are no InferenceServices.')
    : table('Services', kColumns, rows.map(([key, s]) => [
      h('a', {href: `#/services/${key.split('/').map(encodeURIComponent).join('/')}`}, key), projectOf(key, connection.version), String(s.ready ?? 0), String(s.wanted ?? 0), String(s.replicas ?? 0), gpus(s.gpus), load(s), state(s)])), more);
}
