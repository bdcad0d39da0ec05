// Opens the page in a real browser, and looks at every view that it is told of: light and dark, wide and narrow.
//
//   node browse.mjs URL PLAN FOLDER
//
// PLAN: JSON, [{"hash": "#/now", "name": "Now", "expects": ["…"], "forbids": ["…"], "keys": {"of": "canvas", "press":
// ["ArrowRight"], "says": "…"}}]. A view must show every text of `expects` within 20 s and none of `forbids`. It is
// reached by the keyboard, through the link above that has its name. `keys` are pressed in an element, and a text must
// come of it. {"fill": {"of": "#token", "text": "…"}} types a text and presses Enter before all that. Besides, no view may be wider than the window, write to the console, ask for anything that is not the
// page's own, or have a serious finding of axe-core. FOLDER gets a picture of each. Ends with 1 and says what was wrong.
//
// playwright-core and axe-core are in the folder that $MUSTER_PAGE_MODULES names (scripts/install-page.sh).
import {readFileSync, mkdirSync} from 'node:fs';
import {createRequire} from 'node:module';
import {join} from 'node:path';

const require = createRequire(join(process.env.MUSTER_PAGE_MODULES, 'x.js'));
const {chromium} = require('playwright-core');
const axe = readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');

const [url, plan, folder] = process.argv.slice(2);
const views = JSON.parse(plan);
const own = new URL(url).origin;
const problems = [];
mkdirSync(folder, {recursive: true});

async function reach(page, view) {
  if (view.fill) {
    await page.locator(view.fill.of).fill(view.fill.text);
    await page.keyboard.press('Enter');
  }
  const link = page.locator('nav a', {hasText: view.name});
  if (view.name && await link.count() === 1) {
    await link.focus();
    await page.keyboard.press('Enter');
    await page.waitForFunction((hash) => hash.startsWith(location.hash), view.hash, {timeout: 20000})
      .catch(() => { throw new Error(`the link leads to ${page.url()}`); });
  }
  await page.evaluate((hash) => { location.hash = hash; }, view.hash);
  for (const text of view.expects ?? [])
    await page.getByText(text).filter({visible: true}).first().waitFor({timeout: 20000});
  if (!view.keys) return;
  await page.locator(view.keys.of).first().focus();
  for (const key of view.keys.press) await page.keyboard.press(key);
  await page.getByText(view.keys.says).filter({visible: true}).first().waitFor({timeout: 20000});
}

async function examine(page, view, width, where, isThorough) {
  const text = await page.evaluate(() => document.body.innerText);
  for (const word of view.forbids ?? []) if (text.includes(word)) problems.push(`${where}: it shows "${word}"`);
  const wide = await page.evaluate(() => document.documentElement.scrollWidth);
  if (wide > width) problems.push(`${where}: it is ${wide} pixels wide`);
  if (!isThorough) return;
  await page.evaluate(axe);
  const found = await page.evaluate(() => globalThis.axe.run());
  for (const v of found.violations.filter((f) => f.impact === 'serious' || f.impact === 'critical'))
    problems.push(`${where}: ${v.id}: ${v.help}: ${v.nodes.slice(0, 3).map((n) => n.html).join(' ')}`);
}

const browser = await chromium.launch({executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
                                       args: ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage']});
for (const [scheme, width] of [['light', 1280], ['dark', 400], ['light', 400], ['dark', 1280]]) {
  const page = await browser.newPage({viewport: {width, height: 800}, colorScheme: scheme, ignoreHTTPSErrors: true});
  let where = 'start';
  page.on('console', (message) => problems.push(`${where}: console: ${message.text()}`));
  page.on('pageerror', (error) => problems.push(`${where}: ${error.stack}`));
  page.on('request', (request) => {
    if (new URL(request.url()).origin !== own) problems.push(`${where}: it asks for ${request.url()}`);
  });
  page.on('dialog', (dialog) => { problems.push(`${where}: a dialog: ${dialog.message()}`); dialog.dismiss(); });
  await page.goto(url);
  if (page.url().includes('token')) problems.push('the token stays in the address');
  for (const view of views) {
    where = `${view.hash} ${scheme} ${width}`;
    try {
      await reach(page, view);
      // Each colour scheme and each width once: axe-core takes its time.
      await examine(page, view, width, where, (scheme === 'light') === (width === 1280));
    } catch (error) {
      problems.push(`${where}: ${error.message.split('\n').slice(0, 3).join(' ')}`);
    }
    const file = view.hash.replace(/[^a-z0-9]+/g, '_');
    await page.screenshot({path: join(folder, `${file}-${scheme}-${width}.png`)});
  }
  await page.close();
}
await browser.close();
for (const problem of problems) console.log(problem);
process.exit(problems.length > 0 ? 1 : 0);
