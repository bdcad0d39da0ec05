// The frame: which view is shown, and what is to be said above it.
import {connection, follow, signIn, signOut, takeToken} from './data.js';
import {failures, kindsThatAre, narrowKinds} from './cluster.js';
import {h, show} from './dom.js';
import {listed, sentence} from './format.js';
import {history as past} from './history.js';
import {jobs} from './jobs.js';
import {nodes} from './nodes.js';
import {now} from './now.js';
import {queue} from './queue.js';
import {services} from './services.js';

const kViews = [
  {path: 'now', name: 'Now', view: now},
  {path: 'queue', name: 'Queue', view: queue},
  {path: 'nodes', name: 'Nodes', view: nodes},
  {path: 'job', name: 'Jobs', view: jobs},
  {path: 'history', name: 'History', view: past},
  {path: 'services', name: 'Services', view: services},
];

function route() {
  const parts = location.hash.replace(/^#\/?/, '').split('/').map((part) => {
    try { return decodeURIComponent(part); } catch { return part; }
  });
  const found = kViews.find((v) => v.path === parts[0]) ?? kViews[0];
  return {...found, parts: parts.slice(1)};
}

function notices() {
  const list = [];
  if (connection.problem) list.push(connection.problem);
  const forbidden = kindsThatAre('forbidden');
  if (forbidden.length > 0)
    list.push(`You may not read ${listed(forbidden)}: what needs them is left out.`);
  for (const [namespaces, kinds] of narrowKinds())
    list.push(`You may read ${listed(kinds)} only of ${namespaces}: others are left out.`);
  const missing = kindsThatAre('missing');
  if (missing.length > 0) list.push(`The cluster does not know ${listed(missing)}: is Muster installed?`);
  const problems = failures();
  if (problems.length > 0) list.push(`What you see may be old: ${sentence(problems[0])}`);
  return list;
}

// Nothing of the form is ever sent as a form: the token goes into a header, and nowhere else.
function tokenForm() {
  const enter = (event) => {
    event.preventDefault();
    const field = document.getElementById('token');
    if (field.value.trim()) signIn(field.value);
    field.value = '';
  };
  return h('form', {class: 'token', onsubmit: enter},
    h('h2', null, 'Who are you?'),
    h('p', null, 'Show the bearer token with which you ask the cluster. You see what you may read there. ',
      'This tab keeps the token until you close it or let it be forgotten.'),
    h('p', {class: 'tools'},
      h('label', {for: 'token'}, 'Token'),
      h('input', {id: 'token', type: 'password', autocomplete: 'off', spellcheck: 'false'}),
      h('button', {type: 'submit'}, 'Show the cluster')));
}

let drawn = '';
export function redraw() {
  const current = route();
  show(document.getElementById('tabs'), kViews.filter((v) => v.name).map((v) =>
    h('a', {href: `#/${v.path}`, 'aria-current': (current.tab ?? current.path) === v.path ? 'page' : null}, v.name)));
  show(document.getElementById('notices'), notices().map((text) => h('p', {class: 'note'}, text)));
  const main = document.getElementById('view');
  const name = location.hash;
  if (drawn !== name) {
    main.replaceChildren();
    drawn = name;
  }
  document.title = `${current.name ?? 'Job'} – Muster`;
  show(document.getElementById('who'), connection.isPersonal && !connection.asksToken &&
    h('button', {type: 'button', onclick: signOut}, 'Forget my token'));
  if (connection.asksToken) {
    if (!document.getElementById('token')) show(main, tokenForm());  // what is typed there stays
  } else if (!connection.loaded) show(main, h('p', null, connection.problem ? '' : 'Loading…'));
  else current.view(main, current.parts, redraw);
}

takeToken();
addEventListener('hashchange', () => {
  if (/^#token=/.test(location.hash)) { takeToken(); location.reload(); return; }
  redraw();
  document.getElementById('view').focus({preventScroll: true});
  scrollTo(0, 0);
});
redraw();
follow(redraw);
setInterval(redraw, 10000);  // ages and times to come move on without any change
