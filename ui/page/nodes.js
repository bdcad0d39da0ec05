// Nodes: a map of every GPU, coloured by the project that holds it. It is drawn on a canvas, since there may be
// tens of thousands; what stands under the pointer, or is reached with the arrow keys, is told in words.
import {connection, tables} from './data.js';
import {isForbidden, jobLink, projectOf} from './cluster.js';
import {h, show} from './dom.js';
import {gpus, plural} from './format.js';

const kMostColours = 14;  // more cannot be told apart; further projects share one
let chosen = '';          // a project: all others are dimmed

// Who holds each GPU: "node" -> [["ns/job", …] or undefined, …] by the GPU's number.
function holders() {
  const found = new Map();
  for (const [key, places] of tables.places) {
    for (const [node, indexes] of places) {
      let list = found.get(node);
      if (!list) found.set(node, list = []);
      for (const i of indexes) {
        if (!list[i]) list[i] = [key];
        else if (!list[i].includes(key)) list[i].push(key);
      }
    }
  }
  return found;
}

// Projects with the number of GPUs that they hold, those with most first.
function projects(held) {
  const count = new Map();
  for (const list of held.values()) {
    for (const keys of list) {
      if (!keys) continue;
      const owner = projectOf(keys[0], connection.version);
      count.set(owner, (count.get(owner) ?? 0) + 1);
    }
  }
  return [...count].sort((a, b) => b[1] - a[1] || a[0].localeCompare(b[0]));
}

// Hues that are far from each other for neighbours in the list. Colours follow the names where nothing else
// has changed the list, so that a project does not change its colour whenever another one grows.
const colours = new Map();
function colourOf(project) {
  if (!colours.has(project) && colours.size < kMostColours) colours.set(project, colours.size);
  const i = colours.get(project);
  if (i === undefined) return project === chosen ? 'var(--accent)' : 'var(--others)';
  return `hsl(${(212 + i * 137.5) % 360} ${i % 2 ? 40 : 55}% ${i % 3 === 2 ? 62 : 50}%)`;
}

const maps = new Map();  // by pool
const paint = new Map();
function plain(colour) {  // a canvas knows no CSS variables
  if (!colour.startsWith('var(')) return colour;
  if (!paint.has(colour)) paint.set(colour, getComputedStyle(document.documentElement).getPropertyValue(colour.slice(4, -1)).trim());
  return paint.get(colour);
}
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => {
  paint.clear();
  for (const map of maps.values()) draw(map, true);
});

// Where things are: blocks of two rows of GPUs for each node, as many side by side as fit.
function layoutOf(nodes, width) {
  const most = nodes.reduce((n, [, node]) => Math.max(n, node.gpus), 1);
  const cell = nodes.length > 2000 ? 5 : nodes.length > 400 ? 7 : nodes.length > 60 ? 10 : 16;
  const across = Math.min(8, Math.ceil(most / 2));
  const down = Math.ceil(most / across);
  const gap = Math.max(3, Math.round(cell / 2));
  const blockWidth = across * cell + gap;
  const blockHeight = down * cell + gap;
  const columns = Math.max(1, Math.floor((width + gap) / blockWidth));
  return {cell, across, blockWidth, blockHeight, columns, gap,
          height: Math.ceil(nodes.length / columns) * blockHeight - gap};
}

// Nobody uses it, though jobs have it.
const isIdle = (keys) => keys?.length > 0 && keys.every((key) => tables.jobs.get(key)?.idle);

// Draws all GPUs, on a canvas that nobody sees: while somebody only points at them, they stay as they are.
function drawAll(map, layout, width, scale) {
  const {all, nodes, held, failing} = map;
  all.width = Math.floor(width * scale);
  all.height = Math.floor(layout.height * scale);
  const context = all.getContext('2d');
  context.setTransform(scale, 0, 0, scale, 0, 0);
  const free = plain('var(--track)');
  const lost = plain('var(--lost)');
  const mark = plain('var(--mark)');
  const size = layout.cell - 1;
  nodes.forEach(([name, node], n) => {
    const bad = failing.get(name);
    const list = held.get(name);
    for (let i = 0; i < node.gpus; ++i) {
      const {x, y} = placeOf(layout, {node: n, gpu: i});
      const keys = list?.[i];
      const owner = keys && projectOf(keys[0], connection.version);
      context.globalAlpha = chosen && owner !== chosen ? 0.25 : 1;
      context.fillStyle = owner ? plain(colourOf(owner)) : free;
      context.fillRect(x, y, size, size);
      if (isIdle(keys)) { context.fillStyle = free; context.fillRect(x + size / 4, y + size / 4, size / 2, size / 2); }
      if (keys?.length > 1) { context.fillStyle = mark; context.fillRect(x + size / 3, y + size / 3, size / 3, size / 3); }
      if (bad?.includes(i)) { context.fillStyle = lost; context.fillRect(x, y + size / 3, size, size / 3); }
      else if (node.state) { context.fillStyle = mark; context.fillRect(x, y + size - 1, size, 1); }
    }
  });
}

// `isNew`: something else than what is pointed at has changed.
function draw(map, isNew) {
  const {canvas} = map;
  const width = canvas.parentElement.clientWidth;
  if (width === 0) return;
  const layout = layoutOf(map.nodes, width);
  const scale = Math.min(globalThis.devicePixelRatio || 1, 16000 / Math.max(width, layout.height));
  map.layout = layout;
  if (isNew) drawAll(map, layout, width, scale);
  if (canvas.width !== map.all.width || canvas.height !== map.all.height) {
    canvas.width = map.all.width;
    canvas.height = map.all.height;
    canvas.style.height = `${layout.height}px`;
  }
  const context = canvas.getContext('2d');
  context.setTransform(1, 0, 0, 1, 0, 0);
  context.clearRect(0, 0, canvas.width, canvas.height);
  if (canvas.width > 0 && canvas.height > 0) context.drawImage(map.all, 0, 0);
  if (!map.at) return;
  const {x, y} = placeOf(layout, map.at);
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.strokeStyle = plain('var(--mark)');
  context.lineWidth = 2;
  context.strokeRect(x, y, layout.cell - 1, layout.cell - 1);
}

function placeOf(l, {node, gpu}) {
  return {x: (node % l.columns) * l.blockWidth + (gpu % l.across) * l.cell,
          y: Math.floor(node / l.columns) * l.blockHeight + Math.floor(gpu / l.across) * l.cell};
}

function gpuAt(map, x, y) {
  const l = map.layout;
  if (!l) return null;
  const column = Math.floor(x / l.blockWidth);
  const node = Math.floor(y / l.blockHeight) * l.columns + column;
  const gpu = Math.floor((y % l.blockHeight) / l.cell) * l.across + Math.floor((x % l.blockWidth) / l.cell);
  const isIn = column < l.columns && x % l.blockWidth < l.across * l.cell && node < map.nodes.length && gpu < map.nodes[node]?.[1].gpus;
  return isIn ? {node, gpu} : null;
}

function words(map, {node, gpu}) {
  const [name, row] = map.nodes[node];
  const keys = map.held.get(name)?.[gpu];
  const state = [row.state, isIdle(keys) && 'idle', map.failing.get(name)?.includes(gpu) && 'this GPU is failing'].filter(Boolean).join(', ');
  const who = keys ? keys.map((k) => `${k} (project ${projectOf(k, connection.version)})`).join(' and ') : 'no job';
  return `${name}, GPU ${gpu}${row.model ? `, ${row.model}` : ''}: ${who}${state ? `. ${state}` : ''}`;
}

function point(map, at) {
  const isNew = at?.node !== map.at?.node || at?.gpu !== map.at?.gpu;
  if (!isNew) return;
  map.at = at;
  map.tip.hidden = !at;
  if (at) {
    map.says.textContent = words(map, at);
    map.tip.textContent = map.says.textContent;
    const {x, y} = placeOf(map.layout, at);
    map.tip.style.left = `${Math.max(0, Math.min(x + map.layout.cell, map.canvas.clientWidth - map.tip.offsetWidth))}px`;
    map.tip.style.top = `${y + map.layout.cell + 6}px`;
  }
  draw(map, false);
}

function open(map) {
  const key = map.at && map.held.get(map.nodes[map.at.node][0])?.[map.at.gpu]?.[0];
  if (key) location.hash = jobLink(key);
}

function move(map, event) {
  const steps = {ArrowRight: 1, ArrowLeft: -1};
  const at = map.at ?? {node: 0, gpu: 0};
  if (event.key === 'Enter') { open(map); return; }
  if (event.key in steps) {
    let {node, gpu} = at;
    if (map.at) gpu += steps[event.key];
    if (gpu < 0) { node -= 1; gpu = (map.nodes[node]?.[1].gpus ?? 1) - 1; }
    else if (gpu >= map.nodes[node][1].gpus) { node += 1; gpu = 0; }
    if (map.nodes[node]) point(map, {node, gpu});
  } else if (event.key === 'ArrowDown' || event.key === 'ArrowUp') {
    const node = at.node + (event.key === 'ArrowDown' ? 1 : -1) * (map.layout?.columns ?? 1);
    if (map.nodes[node]) point(map, {node, gpu: Math.min(at.gpu, map.nodes[node][1].gpus - 1)});
  } else return;
  event.preventDefault();
}

function mapOf(pool) {
  if (maps.has(pool)) return maps.get(pool);
  const map = {pool, nodes: [], held: new Map(), failing: new Map(), at: null};
  map.all = h('canvas');
  map.canvas = h('canvas', {tabindex: 0, role: 'img'});
  map.says = h('p', {class: 'unseen', role: 'status'});
  map.tip = h('div', {class: 'tip', hidden: true, 'aria-hidden': 'true'});
  map.frame = h('div', {class: 'map', 'data-own': true, id: `map-${pool}`}, map.canvas, map.tip, map.says);
  map.canvas.onpointermove = (e) => point(map, gpuAt(map, e.offsetX, e.offsetY));
  map.canvas.onpointerleave = () => point(map, null);
  map.canvas.onblur = () => point(map, null);
  map.canvas.onclick = () => open(map);
  map.canvas.onkeydown = (e) => move(map, e);
  new ResizeObserver(() => draw(map, true)).observe(map.frame);
  maps.set(pool, map);
  return map;
}

// By node: what the readings of its GPUs say, and what its annotation does.
function failingOf(pool, nodes) {
  const failing = new Map(Object.entries(tables.pools.get(pool)?.failing ?? {}));
  for (const [name, {unhealthy}] of nodes) {
    if (unhealthy) failing.set(name, [...new Set([...(failing.get(name) ?? []), ...unhealthy])]);
  }
  return failing;
}

function section(pool, nodes, held) {
  const map = mapOf(pool);
  map.nodes = nodes;
  map.held = held;
  if (!nodes[map.at?.node] || map.at.gpu >= nodes[map.at.node][1].gpus) point(map, null);
  map.failing = failingOf(pool, nodes);
  const all = nodes.reduce((n, [, node]) => n + node.gpus, 0);
  const taken = nodes.reduce((n, [name]) => n + (held.get(name)?.filter(Boolean).length ?? 0), 0);
  const broken = nodes.reduce((n, [name]) => n + (map.failing.get(name)?.length ?? 0), 0);
  // The pool counts all pods, and healthy GPUs of usable nodes only.
  const state = `jobs hold ${taken} of ${all} GPUs, ${gpus(tables.pools.get(pool)?.free ?? 0)} free${broken ? `, ${broken} failing` : ''}`;
  const models = [...new Set(nodes.map(([, node]) => node.model).filter(Boolean))].slice(0, 3).join(', ');
  map.canvas.setAttribute('aria-label', `${pool}: ${state}, on ${plural(nodes.length, 'node')}`);
  return h('section', {id: `pool-${pool}`}, h('h3', null, pool, ' ',
    h('span', {class: 'small'}, `${plural(nodes.length, 'node')}${models && ` of ${models}`}, ${state}`)), map.frame);
}

function swatch(colour) {
  return h('svg', {class: 'swatch', viewBox: '0 0 1 1', 'aria-hidden': 'true'}, h('rect', {width: 1, height: 1, fill: colour}));
}

// Those that share a colour can be chosen one by one.
function furtherProjects(list, redraw) {
  const gpus = list.reduce((n, [, count]) => n + count, 0);
  const isChosen = list.some(([name]) => name === chosen);
  return h('li', null, swatch(isChosen ? 'var(--accent)' : 'var(--others)'), h('label', null, `${list.length} further projects, ${gpus} `,
    h('select', {value: isChosen ? chosen : '', onchange: (e) => { chosen = e.target.value; redraw(); }},
      h('option', {value: ''}, 'show one'), list.map(([name, count]) => h('option', {value: name, selected: name === chosen}, `${name} ${count}`)))));
}

function legend(list, redraw) {
  const known = list.slice(0, kMostColours);
  const rest = list.slice(kMostColours);
  for (const [name] of known) colourOf(name);
  return h('ul', {class: 'legend'},
    known.map(([name, count]) => h('li', null, h('button', {type: 'button', 'aria-pressed': chosen === name ? 'true' : 'false',
      onclick: () => { chosen = chosen === name ? '' : name; redraw(); }}, swatch(colourOf(name)), ` ${name} ${count}`))),
    rest.length > 0 && furtherProjects(rest, redraw),
    h('li', null, swatch('var(--track)'), 'held by no job'),
    h('li', null, h('span', {class: 'swatch hollow'}), 'hollow: held, and idle'),
    h('li', null, h('span', {class: 'swatch failing'}), 'failing'),
    h('li', null, h('span', {class: 'swatch away'}), 'node cordoned or not ready'));
}

export function nodes(root, parts, redraw) {
  if (isForbidden('nodes') || isForbidden('pools')) {
    show(root, h('h2', null, 'Nodes'), h('p', null, 'The map needs the right to list Nodes and NodePools, which you do not have.'));
    return;
  }
  const byPool = new Map();
  for (const entry of tables.nodes) {
    const pool = entry[1].pool;
    if (!byPool.has(pool)) byPool.set(pool, []);
    byPool.get(pool).push(entry);
  }
  const natural = new Intl.Collator('en', {numeric: true});
  for (const list of byPool.values()) list.sort((a, b) => natural.compare(a[0], b[0]));
  const held = holders();
  const list = projects(held);
  show(root, h('h2', null, 'Nodes'),
    byPool.size === 0 ? h('p', null, 'No node of a NodePool has GPUs.') : [
      h('p', {class: 'small'}, 'Each small square is a GPU. Point at one, or go there with the arrow keys: a click or Enter opens its job.'),
      legend(list, redraw), [...byPool].sort().map(([pool, entries]) => section(pool, entries, held)),
      h('p', {class: 'small'}, 'Which GPUs pods have that are not Muster’s is not known: a GPU that no job holds may be theirs. What a pool says is free counts them.')]);
  for (const pool of byPool.keys()) draw(mapOf(pool), true);
}
