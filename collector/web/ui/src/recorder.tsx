// Host: how far the machine's recorders reach back, what was asked of them, and the window of the page as a request. The key that signs is on no
// collector: the panel shows the command that signs, and takes what it wrote.
import { useState } from 'preact/hooks';
import { asJson, ask, messageOf, sqlText, url, useApi, useSql, type Item, type State } from './api';
import { bytes, count, Facts, Link, Notice, Table } from './parts';
import { shortTime, spanOf, toIso, type View } from './state';

interface Reach { begin: string; time: string; ended: number }
type Asked = Item<'requests'>;
const LAST_MS = 600e3, ROWS = 50; // of a page that shows all times: the last ten minutes
const AN_AGENT = /^[\w.-]+$/; // as certificates name agents; anything else is nothing to put into a command

/** The command that signs a request for the window. */
export const signCommand = (host: string, from: number, to: number) =>
  `etwcollector request window --key requests.key --host ${host} --from ${toIso(from)} --to ${toIso(to)} -o ${host}.request && base64 ${host}.request`;
const outcome = (r: Asked) => (r.state === 'sent' ? `${count(r.events)} events in ${count(r.batches)} batches, ${bytes(r.bytes)}${r.text ? `; ${r.text}` : ''}` : r.text);

// Takes what was signed elsewhere.
function HandIn() {
  const [signed, setSigned] = useState(''), [answer, setAnswer] = useState<State<{ request: number }>>({});
  const send = async () => {
    setAnswer({ loading: true });
    try {
      setAnswer({ data: await ask<{ request: number }>(`${url('requests')}`, asJson({ signed: signed.trim() })) });
      setSigned('');
    } catch (error) {
      setAnswer({ error: messageOf(error) });
    }
  };
  return <form class="tools" onSubmit={(e) => e.preventDefault()}>
    <label class="field wide"><span>The signed request, in base64</span><textarea rows={3} class="mono" spellcheck={false} value={signed} onInput={(e) => setSigned(e.currentTarget.value)} /></label>
    <button type="button" disabled={!signed.trim()} onClick={send}>Hand in</button>
    <Notice state={answer} />
    {answer.data && <p class="note" role="status">request {answer.data.request} waits for the machine</p>}
  </form>;
}

function Fetch({ host, view }: { host: string; view: View }) {
  const [opened] = useState(Date.now), span = spanOf(view) ?? { from: opened - LAST_MS, to: opened };
  return <details><summary>Fetch this window</summary>
    <p class="note">From {shortTime(toIso(span.from))} to {shortTime(toIso(span.to))}; the range of the page chooses it. Sign it where the key is, and hand in what the command prints.
      That needs a token of the scope operate.</p>
    <pre class="wrap rule" tabIndex={0} aria-label="Command that signs">{signCommand(host, span.from, span.to)}</pre>
    <HandIn />
  </details>;
}

export const Recorder = ({ host, view }: { host: string; view: View }) => (AN_AGENT.test(host) ? <RecorderPanel host={host} view={view} /> : null);

function RecorderPanel({ host, view }: { host: string; view: View }) {
  const known = useSql<Reach>(`SELECT begin, time, ended FROM recorders WHERE host = ${sqlText(host)} AND begin IS NOT NULL ORDER BY ended, time DESC`).data?.items ?? [];
  const running = known.filter((r) => !r.ended), reach = running.length ? running : known.slice(0, 1); // what an ended run recorded is there for the next one
  const asked = useApi(url('requests', { host, limit: ROWS }), 5000), rows = asked.data?.items ?? [];
  if (!reach.length && !rows.length) return null;
  return <section><h2>Recorder</h2>
    <Facts rows={reach.map((r) => ['Reaches', `from ${shortTime(r.begin)} to ${r.ended ? `${shortTime(r.time)}, when its run ended` : `now, as of ${shortTime(r.time)}`}`] as const)} />
    {rows.length > 0 && <Table label="Requests" rows={rows} columns={[
      { title: 'Request', right: true, show: (r) => r.request },
      { title: 'Window', show: (r) => <Link to={{ page: 'host', host, from: r.begin, to: r.end }}>{shortTime(r.begin)} to {shortTime(r.end)}</Link> },
      { title: 'State', show: (r) => <span class={r.state === 'refused' ? 'bad' : ''}>{r.state}</span> },
      { title: 'What came of it', show: outcome }, { title: 'Added', show: (r) => shortTime(r.added) }, { title: 'Expires', show: (r) => shortTime(r.expires) }]} />}
    <Fetch host={host} view={view} />
  </section>;
}
