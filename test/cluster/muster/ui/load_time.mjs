// How long `kubectl muster ui` takes until a real browser shows a large cluster.
//
//   node load_time.mjs PROGRAM KUBECONFIG JOBS
//
// Starts the program and opens its page, in a browser that runs already. Prints three times in ms, counted from the start of
// the program: until the page shows its first figures; until it has drawn all JOBS jobs, all nodes and Projects. Then how long
// it takes to open the page once more. playwright-core is in $MUSTER_PAGE_MODULES (scripts/install-page.sh).
import {spawn} from 'node:child_process';
import {createRequire} from 'node:module';
import {join} from 'node:path';

const require = createRequire(join(process.env.MUSTER_PAGE_MODULES, 'x.js'));
const {chromium} = require('playwright-core');
const [program, kubeconfig, jobs] = process.argv.slice(2);

const browser = await chromium.launch({executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
                                       args: ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage']});
const open = async (url) => {
  const page = await browser.newPage({viewport: {width: 1280, height: 800}});
  await page.goto(url);
  return page.evaluate(async (count) => {
    const {tables} = await import('/data.js');
    const areRead = (kinds) => kinds.every((kind) => tables.about.get(kind)?.state === 'read');
    let shown = 0;
    for (;;) {
      if (!shown && document.body.innerText.includes('GPUs allocated')) shown = Date.now();
      if (tables.jobs.size >= count && areRead(['jobs', 'nodes', 'projects', 'queues', 'pools'])) break;
      await new Promise((resume) => setTimeout(resume, 5));
    }
    await new Promise((resume) => requestAnimationFrame(() => setTimeout(resume, 0)));
    return {shown: shown || Date.now(), drawn: Date.now()};
  }, Number(jobs));
};

const began = Date.now();
const server = spawn(program, ['--kubeconfig', kubeconfig, 'ui']);
const url = await new Promise((resume) => server.stdout.once('data', (text) => resume(String(text).split('\n')[0])));
const first = await open(url);
const again = Date.now();
const second = await open(url);
console.log(`first figures ${first.shown - began} ms, everything drawn ${first.drawn - began} ms, ` +
            `opened again ${second.drawn - again} ms`);
await browser.close();
server.kill('SIGTERM');
