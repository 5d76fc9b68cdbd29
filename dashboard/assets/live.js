// Keeps the marked parts of a page up to date. Without it every page works as it was loaded.
'use strict';

const every = 5000;        // milliseconds between two readings
const atMost = 60000;      // after failures
const parts = () => document.querySelectorAll('[data-live]');
const live = [...parts()].some((part) => part.id !== 'as-of');
const state = document.getElementById('live-state');
let delay = every;
let timer;

// A part is left alone while somebody works in it.
function isBusy(part) {
  return part.contains(document.activeElement) && document.activeElement !== document.body;
}

function take(fresh) {
  for (const part of parts()) {
    const other = fresh.getElementById(part.id);
    if (!other || isBusy(part) || part.isEqualNode(other)) continue;
    const said = other.dataset.announce;
    if (said && said !== part.dataset.announce) document.getElementById('announce').textContent = said;
    part.replaceWith(document.importNode(other, true));
  }
}

async function refresh() {
  clearTimeout(timer);
  if (document.hidden) return;
  try {
    const response = await fetch(location.href, { credentials: 'same-origin', signal: AbortSignal.timeout(20000) });
    if (response.status === 401) {
      state.textContent = 'Signed out: load the page again';
      return;
    }
    if (!response.ok) throw new Error(response.status);
    take(new DOMParser().parseFromString(await response.text(), 'text/html'));
    state.textContent = 'Updates every 5 seconds';
    delay = every;
  } catch {
    state.textContent = 'No answer; trying again';
    delay = Math.min(delay * 2, atMost);
  }
  timer = setTimeout(refresh, delay);
}

if (live) {
  state.hidden = false;
  state.textContent = 'Updates every 5 seconds';
  timer = setTimeout(refresh, delay);
  document.addEventListener('visibilitychange', () => { if (!document.hidden) refresh(); });
}

// What a change has led to is shown once, not again after a reload.
if (new URLSearchParams(location.search).has('done')) {
  const url = new URL(location.href);
  for (const name of ['done', 'changed', 'left']) url.searchParams.delete(name);
  history.replaceState(null, '', url);
}

// The rows that are selected: all at once, and how many.
const all = document.querySelector('[data-all]');
if (all) {
  const boxes = [...all.form.querySelectorAll('[name=number]:not(:disabled)')];
  const count = () => {
    const n = boxes.filter((box) => box.checked).length;
    all.form.querySelector('[data-selected]').textContent = `: ${n} of ${boxes.length} on this page`;
    all.checked = n === boxes.length;
    all.indeterminate = n > 0 && n < boxes.length;
  };
  all.hidden = false;
  all.addEventListener('change', () => {
    for (const box of boxes) box.checked = all.checked;
  });
  all.form.addEventListener('change', count);
  count();
}

// Keys, for those who do without a mouse.
const keys = document.getElementById('keys');
const finder = document.getElementById('find');

function move(step) {
  const rows = [...document.querySelectorAll('main tbody tr')].filter((row) => row.querySelector('a'));
  const at = rows.indexOf(document.activeElement.closest('tr'));
  rows[Math.min(Math.max(at + step, 0), rows.length - 1)]?.querySelector('a').focus();
}

const actions = {
  '/': () => finder?.focus(),
  '?': () => keys.showModal(),
  j: () => move(1),
  k: () => move(-1),
  x: () => document.activeElement.closest('tr')?.querySelector('[type=checkbox]')?.click(),
};

document.addEventListener('keydown', (event) => {
  const target = event.target;
  const writes = target.matches('textarea, select, input:not([type=checkbox])');
  if (event.key === 'Escape' && writes) target.blur();
  if (writes || keys.open || event.ctrlKey || event.metaKey || event.altKey || !Object.hasOwn(actions, event.key)) return;
  event.preventDefault();
  actions[event.key]();
});
const showKeys = document.getElementById('show-keys');
showKeys.hidden = false;
showKeys.addEventListener('click', actions['?']);

// The theme is kept in a cookie, so that the next page comes in it.
const themes = ['system', 'light', 'dark'];
const theme = document.getElementById('theme');
const root = document.documentElement;
const nameTheme = () => { theme.textContent = `Theme: ${root.dataset.theme ?? 'system'}`; };
theme.hidden = false;
theme.addEventListener('click', () => {
  const next = themes[(themes.indexOf(root.dataset.theme ?? 'system') + 1) % themes.length];
  if (next === 'system') delete root.dataset.theme;
  else root.dataset.theme = next;
  const path = new URL(document.querySelector('.brand').href).pathname;
  document.cookie = `waybill_theme=${next}; path=${path}; max-age=31536000; SameSite=Lax`;
  nameTheme();
});
nameTheme();

// A form is sent once.
document.addEventListener('submit', (event) => {
  if (event.target.method !== 'post') return;
  if (event.target.dataset.sent) event.preventDefault();
  event.target.dataset.sent = 'yes';
});
window.addEventListener('pageshow', () => {
  for (const form of document.forms) delete form.dataset.sent;
});
