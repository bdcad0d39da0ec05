// Services: how many replicas there are, how many are wanted, and by which load.
import {connection, tables} from './data.js';
import {isForbidden, projectOf} from './cluster.js';
import {h, part, show, table} from './dom.js';
import {gpus, sentence, until} from './format.js';

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

export function services(root, parts, redraw) {
  const heading = h('h2', null, 'Services');
  if (isForbidden('services')) { show(root, heading, h('p', null, 'You may not read InferenceServices.')); return; }
  const all = [...tables.services].sort((a, b) => a[0].localeCompare(b[0]));
  const [rows, more] = part('services', all, redraw);
  show(root, heading, rows.length === 0 ? h('p', null, 'There are no InferenceServices.')
    : table('Services', kColumns, rows.map(([key, s]) => [
      key, projectOf(key, connection.version), String(s.ready ?? 0), String(s.wanted ?? 0), String(s.replicas ?? 0), gpus(s.gpus), load(s), state(s)])), more);
}
