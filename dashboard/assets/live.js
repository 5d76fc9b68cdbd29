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

const all = document.querySelector('[data-all]');
if (all) {
  all.hidden = false;
  all.addEventListener('change', () => {
    for (const box of all.form.querySelectorAll('[name=number]:not(:disabled)')) box.checked = all.checked;
  });
}

// A form is sent once.
document.addEventListener('submit', (event) => {
  if (event.target.method !== 'post') return;
  if (event.target.dataset.sent) event.preventDefault();
  event.target.dataset.sent = 'yes';
});
window.addEventListener('pageshow', () => {
  for (const form of document.forms) delete form.dataset.sent;
});
