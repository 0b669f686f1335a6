// A small document for the components: imported before them, as their modules look at the address when they are loaded.
import { parseHTML } from 'linkedom';

const { window, document } = parseHTML('<!doctype html><html><body></body></html>');
const place = { pathname: '/', search: '', origin: 'http://127.0.0.1', href: 'http://127.0.0.1/' };
const step = (_state: unknown, _title: string, address: string) => {
  const made = new URL(address, place.origin);
  Object.assign(place, { pathname: made.pathname, search: made.search, href: made.href });
};
const kept = new Map<string, string>();
Object.assign(globalThis, {
  window, document, location: place, history: { pushState: step, replaceState: step }, addEventListener: () => {}, removeEventListener: () => {},
  matchMedia: () => ({ matches: false, addEventListener: () => {}, removeEventListener: () => {} }), devicePixelRatio: 1, navigator: window.navigator, Event: window.Event, CustomEvent: window.CustomEvent,
  requestAnimationFrame: (f: () => void) => setTimeout(f), cancelAnimationFrame: clearTimeout,
  ResizeObserver: class { observe() {} disconnect() {} },
  localStorage: { getItem: (k: string) => kept.get(k) ?? null, setItem: (k: string, v: string) => kept.set(k, v) },
});

/** The parameters of the address. */
export const address = () => Object.fromEntries(new URLSearchParams(place.search));
/** Hands the fetch of the API's answers to f: what it returns is the answer's JSON. */
export function answers(f: (address: string) => unknown) {
  globalThis.fetch = ((at: string) => Promise.resolve({ ok: true, status: 200, text: () => Promise.resolve(JSON.stringify(f(at))) })) as unknown as typeof fetch;
}
/** Until effects have run and answers are there. */
export const settled = () => new Promise((f) => setTimeout(f, 30));
export { document };
