// What several views ask of the tables.
import {tables} from './data.js';

const kKinds = {queues: 'Queues', projects: 'Projects', pools: 'NodePools', nodes: 'Nodes',
                jobs: 'TrainingJobs', services: 'InferenceServices'};

export const isRead = (kind) => tables.about.get(kind)?.state === 'read';
export const isForbidden = (kind) => tables.about.get(kind)?.state === 'forbidden';

export function kindsThatAre(state) {
  return Object.keys(kKinds).filter((k) => tables.about.get(k)?.state === state).map((k) => kKinds[k]);
}
// ["TrainingJobs"] by the namespaces that they are read of: [[names, namespaces]].
export function narrowKinds() {
  const found = new Map();
  for (const [kind, name] of Object.entries(kKinds)) {
    const namespaces = tables.about.get(kind)?.namespaces;
    if (!namespaces) continue;
    const key = namespaces.join(', ');
    found.set(key, [...(found.get(key) ?? []), name]);
  }
  return [...found];
}
export function failures() {
  return Object.keys(kKinds).map((k) => tables.about.get(k)).filter((a) => a?.state === 'failing')
    .map((a) => a.message);
}

// The Project of each namespace; where it is not known, the namespace itself stands for it.
let owners = new Map();
let ownersVersion = -1;
export function projectOf(key, version) {
  if (version !== ownersVersion) {
    owners = new Map([...tables.projects].map(([name, p]) => [p.namespace ?? name, name]));
    ownersVersion = version;
  }
  const namespace = key.slice(0, key.indexOf('/'));
  return owners.get(namespace) ?? namespace;
}

export function defaultPool() {
  for (const [name, pool] of tables.pools) if (pool.default) return name;
  return '';
}

// What a Queue or Project has in a pool. The default pool's stands at the top of the object.
export function shareIn(row, pool) {
  const share = pool === '' || pool === defaultPool() ? row : row.pools?.[pool] ?? {};
  const {quota = 0, fair = 0, used = 0, borrowed = 0, pending = 0} = share;
  return {quota, fair, used, borrowed, pending};
}

export const isHolding = (job) => (job.gpus ?? 0) > 0;
// What the GPUs of a job are doing: one of kUses, by name.
export const kUses = ['useful', 'starting', 'saving', 'idle'];
export function useOf(job) {
  if (job.phase === 'Starting') return 'starting';
  if (job.phase === 'Checkpointing') return 'saving';
  return job.idle ? 'idle' : 'useful';
}

export function jobLink(key) {
  const slash = key.indexOf('/');
  return `#/job/${encodeURIComponent(key.slice(0, slash))}/${encodeURIComponent(key.slice(slash + 1))}`;
}
