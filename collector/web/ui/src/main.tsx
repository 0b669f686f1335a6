// The dashboard's frame: navigation, time range, theme, keys.
import { render, type JSX } from 'preact';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import 'uplot/dist/uPlot.min.css';
import './app.css';
import { Detections } from './detections';
import { Dotnet } from './dotnet';
import { Events } from './events';
import { FilePage } from './file';
import { Home } from './home';
import { Host } from './host';
import { Counters, Fleet, Ledger, Process, Queries, Security } from './pages';
import { Link } from './parts';
import { Profile } from './profile';
import { Programs } from './programs';
import { RangePicker } from './range';
import { Disk, Waits } from './usage';
import { go, isTyping, remember, remembered, useView, type View } from './state';

const PAGES: Readonly<Record<string, (props: { view: View; dark: boolean }) => JSX.Element>> = { home: Home, fleet: Fleet, host: Host, process: Process, profile: Profile, waits: Waits, disk: Disk, dotnet: Dotnet, file: FilePage, counters: Counters, programs: Programs, detections: Detections, security: Security, events: Events, queries: Queries, ledger: Ledger };
const NAV: readonly (readonly [string, string, string])[] = [['home', 'Home', 'h'], ['fleet', 'Fleet', 'f'], ['detections', 'Detections', 'd'], ['security', 'Security', 's'], ['events', 'Events', 'e'], ['profile', 'Profile', 'p'], ['waits', 'Waits', 'w'], ['disk', 'Disk', 'i'], ['dotnet', '.NET', 'n'], ['counters', 'Counters', 'c'], ['programs', 'Programs', 'o'], ['queries', 'Queries', 'q'], ['ledger', 'Ledger', 'l']];

function useTheme() {
  const query = matchMedia('(prefers-color-scheme: dark)');
  const [theme, set] = useState(() => remembered('theme', ''));
  const [system, setSystem] = useState(query.matches);
  useEffect(() => {
    const f = (e: MediaQueryListEvent) => setSystem(e.matches);
    query.addEventListener('change', f);
    return () => query.removeEventListener('change', f);
  }, []);
  const dark = theme ? theme === 'dark' : system;
  useEffect(() => {
    document.documentElement.dataset.theme = dark ? 'dark' : 'light';
  }, [dark]);
  return [dark, () => { const next = dark ? 'light' : 'dark'; set(next); remember('theme', next); }] as const;
}

function Keys({ close }: { close: () => void }) {
  const d = useRef<HTMLDialogElement>(null);
  useEffect(() => { d.current!.showModal(); }, []);
  return <dialog ref={d} onClose={close} aria-labelledby="keys"><h2 id="keys">Keys</h2>
    <dl class="keys"><div><dt><kbd>/</kbd></dt><dd>search</dd></div>{NAV.map(([, t, k]) => <div><dt><kbd>g</kbd> <kbd>{k}</kbd></dt><dd>{t}</dd></div>)}
      <div><dt><kbd>t</kbd></dt><dd>change the time range</dd></div><div><dt><kbd>,</kbd> <kbd>.</kbd> <kbd>z</kbd></dt><dd>an earlier range, a later one, one twice as wide</dd></div>
      <div><dt><kbd>←</kbd> <kbd>→</kbd></dt><dd>move the timeline's cursor, with Shift ten times as far</dd></div>
      <div><dt><kbd>↑</kbd> <kbd>↓</kbd> <kbd>Enter</kbd></dt><dd>choose a bar or a frame, open it</dd></div>
      <div><dt><kbd>Shift</kbd> <kbd>→</kbd></dt><dd>mark several bars of the counts over time; Enter narrows the range to them</dd></div>
      <div><dt><kbd>n</kbd> <kbd>N</kbd></dt><dd>the next frame that the search finds, the one before</dd></div>
      <div><dt><kbd>a</kbd></dt><dd>callers and callees of the chosen frame</dd></div>
      <div><dt><kbd>+</kbd> <kbd>−</kbd></dt><dd>zoom the timeline</dd></div><div><dt><kbd>c</kbd></dt><dd>go to the timeline or flame graph</dd></div><div><dt><kbd>?</kbd></dt><dd>this list</dd></div></dl>
    <button onClick={() => d.current!.close()}>Close</button></dialog>;
}

function App() {
  const view = useView(), [dark, toggle] = useTheme(), [help, setHelp] = useState(false);
  const page = Object.hasOwn(PAGES, view.page ?? '') ? view.page! : 'home', Page = PAGES[page];
  const main = useRef<HTMLElement>(null), began = useRef(0);
  // what makes it another page, and not the same one with another search
  const place = [page, ...(['host', 'process'].includes(page) ? [view.host, view.stream, view.instance] : [view.tab, view.query, page === 'detections' && view.number])].join(' ');
  useLayoutEffect(() => { // with the page itself: later, it would take the focus from a field that was entered meanwhile
    document.title = `${page === 'host' || page === 'process' ? view.host : NAV.find(([p]) => p === page)?.[1] ?? page} · etwagent`;
    if (began.current++) main.current!.focus({ preventScroll: true });
    scrollTo(0, 0);
  }, [place]);
  useEffect(() => {
    let g = 0;
    const key = (e: KeyboardEvent) => {
      if (isTyping(e)) return;
      const to = NAV.find(([, , k]) => k === e.key);
      if (g && Date.now() - g < 1500 && to) go({ page: to[0], range: view.range, from: view.from, to: view.to });
      else if (e.key === '/') document.querySelector<HTMLElement>('[data-hotkey="/"]')?.focus();
      else if (e.key === 'c') document.querySelector<HTMLElement>('main canvas[tabindex]')?.focus();
      else if (e.key === '?') setHelp(true);
      else { g = e.key === 'g' ? Date.now() : 0; return; }
      g = 0;
      e.preventDefault();
    };
    addEventListener('keydown', key);
    return () => removeEventListener('keydown', key);
  });
  return <>
    <a class="skip" href="#main" onClick={(e) => { e.preventDefault(); main.current!.focus(); }}>To the content</a>
    <header>
      <Link class="brand" to={{}}>etwagent</Link>
      <nav aria-label="Pages">{NAV.map(([p, t]) => <Link to={{ page: p, range: view.range, from: view.from, to: view.to }} aria-current={p === page ? 'page' : undefined}>{t}</Link>)}</nav>
      <RangePicker view={view} />
      <button onClick={toggle} aria-label={dark ? 'Light colours' : 'Dark colours'}>{dark ? '☀' : '☾'}</button>
      <button onClick={() => setHelp(true)} aria-label="Keys">?</button>
    </header>
    <main id="main" tabIndex={-1} ref={main}><Page key={place} view={view} dark={dark} /></main>
    {help && <Keys close={() => setHelp(false)} />}
  </>;
}
render(<App />, document.body);
