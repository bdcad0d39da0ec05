// Elements from data, and the one way to put new ones in the place of old ones. All text goes through text
// nodes and attributes: nothing of the cluster is ever parsed as HTML.

const kSvg = 'http://www.w3.org/2000/svg';
const kSvgTags = new Set(['svg', 'rect', 'line', 'path', 'g', 'text', 'title']);

// h('a', {href: '#/now', class: 'x', onclick: f}, 'text', element, [more]). null, undefined and false are left
// out, both as attributes and as children.
export function h(tag, attributes, ...children) {
  const element = kSvgTags.has(tag) ? document.createElementNS(kSvg, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith('on')) element[name] = value;
    else if (name === 'value') element.value = value;
    else element.setAttribute(name, value === true ? '' : String(value));
  }
  add(element, children);
  return element;
}

function add(parent, children) {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    if (Array.isArray(child)) add(parent, child);
    else parent.append(child);  // text becomes a text node
  }
}

// Makes `old` look like `wanted`, and keeps what is the same: so what has the focus keeps it, and nothing
// scrolls.
function morph(old, wanted) {
  for (const {name} of [...old.attributes]) {
    if (!wanted.hasAttribute(name)) old.removeAttribute(name);
  }
  for (const {name, value} of wanted.attributes) {
    if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  for (const name of ['onclick', 'oninput', 'onchange', 'onkeydown', 'onsubmit']) {
    if (old[name] !== wanted[name]) old[name] = wanted[name];
  }
  if (old.tagName === 'INPUT' || old.tagName === 'SELECT') {
    morphChildren(old, wanted);
    if (old !== document.activeElement || old.tagName === 'SELECT') old.value = wanted.value;
    return;
  }
  // A view looks after its own drawing.
  if (!old.hasAttribute('data-own')) morphChildren(old, wanted);
}

function morphChildren(old, wanted) {
  const coming = [...wanted.childNodes];
  while (old.childNodes.length > coming.length) old.lastChild.remove();
  coming.forEach((node, i) => {
    const there = old.childNodes[i];
    if (!there) old.append(node);
    else if (there.nodeType !== node.nodeType || there.nodeName !== node.nodeName ||
             (there.id ?? '') !== (node.id ?? '')) there.replaceWith(node);
    else if (node.nodeType === Node.TEXT_NODE) { if (there.data !== node.data) there.data = node.data; }
    else morph(there, node);
  });
}

export function show(parent, ...children) {
  const wanted = document.createElement('div');
  add(wanted, children);
  morphChildren(parent, wanted);
}

// A table whose rows become cards where the page is narrow. `columns`: [{name, class}]; `rows`: lists of cells.
export function table(caption, columns, rows, attributes = {}) {
  return h('table', {class: 'cards', ...attributes},
    h('caption', {class: 'unseen'}, caption),
    h('thead', null, h('tr', null, columns.map((c) => h('th', {scope: 'col', class: c.class}, c.name)))),
    h('tbody', null, rows.map((cells) => h('tr', null, cells.map((cell, i) =>
      h('td', {class: columns[i].class, 'data-name': columns[i].name}, cell))))));
}

// Long lists are shown in parts, so that a page about thousands of jobs stays quick.
const shown = new Map();
export function part(id, list, redraw, step = 200) {
  const count = shown.get(id) ?? step;
  const more = list.length > count && h('p', null,
    h('button', {type: 'button', onclick: () => { shown.set(id, count + 5 * step); redraw(); }},
      `Show more: ${list.length - count} of ${list.length} are not shown`));
  return [list.slice(0, count), more || null];
}
