// The editor of SQL: colours, completion, undo. A file of its own, which the page of queries alone loads; so it imports no code of the page. It is in a shadow tree: there CodeMirror
// makes its styles as objects, where in the page it would insert a style element, which the Content-Security-Policy refuses.
import { autocompletion, completionKeymap, type CompletionContext } from '@codemirror/autocomplete';
import { defaultKeymap, history, historyKeymap } from '@codemirror/commands';
import { SQLDialect, SQLite, sql } from '@codemirror/lang-sql';
import { bracketMatching, HighlightStyle, syntaxHighlighting } from '@codemirror/language';
import { EditorState, Prec } from '@codemirror/state';
import { EditorView, keymap } from '@codemirror/view';
import { tags } from '@lezer/highlight';
import type { Choice } from './sql_names';

export interface Editor { readonly set: (text: string) => void; readonly focus: () => void; readonly end: () => void }
/** at: where the cursor is. choices: what can be completed in a statement; inQuotes: after a quotation mark. */
export interface EditorOptions { text: string; at: number; label: string; onChange: (text: string) => void; onRun: () => void; choices: (sql: string, inQuotes: boolean) => readonly Choice[] }

// the page's own colours, which change with its theme
const FORM = EditorView.theme({
  '&': { border: '1px solid var(--line)', borderRadius: '.35rem', background: 'var(--card)', color: 'var(--ink)', fontSize: '13px' },
  '&.cm-focused': { outline: '2px solid var(--blue)', outlineOffset: '1px' },
  '.cm-scroller': { fontFamily: 'ui-monospace, monospace', minHeight: '11rem', maxHeight: '50vh' },
  '.cm-content': { caretColor: 'var(--ink)' },
  '.cm-selectionBackground, &.cm-focused .cm-selectionBackground': { background: 'var(--mark) !important' },
  '.cm-tooltip': { background: 'var(--card)', color: 'var(--ink)', border: '1px solid var(--line)' },
  '.cm-tooltip.cm-tooltip-autocomplete > ul > li[aria-selected]': { background: 'var(--mark)', color: 'var(--ink)', outline: '1px solid var(--blue)' },
  '.cm-completionDetail': { color: 'var(--dim)', fontStyle: 'normal' },
});
const COLOURS = HighlightStyle.define([
  { tag: [tags.keyword, tags.operatorKeyword], color: 'var(--blue)', fontWeight: '600' }, { tag: [tags.string, tags.special(tags.string)], color: 'var(--good)' },
  { tag: [tags.number, tags.bool, tags.null], color: 'var(--bad)' }, { tag: tags.comment, color: 'var(--dim)', fontStyle: 'italic' },
]);
const DIALECT = SQLDialect.define({ ...SQLite.spec, identifierQuotes: '"' });
const MOST_CHOICES = 1000;

export function editorIn(parent: HTMLElement, { text, at: cursor, label, onChange, onRun, choices }: EditorOptions): Editor {
  const complete = (at: CompletionContext) => {
    const inQuotes = at.state.sliceDoc(at.state.doc.lineAt(at.pos).from, at.pos).split('"').length % 2 === 0, word = at.matchBefore(inQuotes ? /"[^"]*/ : /\w+/);
    if (!word && !at.explicit) return null;
    const options = choices(at.state.doc.toString(), inQuotes).slice(0, MOST_CHOICES).map(({ label: name, apply, kind, of }) =>
      ({ label: inQuotes ? apply : name, apply, detail: of ?? 'table', type: kind, boost: kind === 'column' ? 1 : 0 }));
    return { from: word?.from ?? at.pos, options, validFor: inQuotes ? /^"[^"\n]*$/ : /^\w*$/ };
  };
  const root = parent.shadowRoot ?? parent.attachShadow({ mode: 'open' });
  const view = new EditorView({ root, parent: root, state: EditorState.create({ doc: text, selection: { anchor: cursor }, extensions: [
    history(), bracketMatching(), syntaxHighlighting(COLOURS), FORM, EditorView.lineWrapping,
    sql({ dialect: DIALECT, upperCaseKeywords: true }), DIALECT.language.data.of({ autocomplete: complete }), autocompletion({ icons: false }),
    Prec.highest(keymap.of([{ key: 'Mod-Enter', run: () => { onRun(); return true; } }])),
    keymap.of([...completionKeymap, ...historyKeymap, ...defaultKeymap]), // Tab leaves the editor, as it leaves every field
    // text that is typed over other text: the browser would keep the colours of the old one in a style attribute, which the policy refuses
    EditorView.domEventHandlers({ beforeinput: (e, v) => {
      if (e.inputType !== 'insertText' || !e.data || v.composing || v.state.selection.main.empty) return false;
      v.dispatch({ ...v.state.replaceSelection(e.data), userEvent: 'input.type', scrollIntoView: true });
      e.preventDefault();
      return true;
    } }),
    EditorView.contentAttributes.of({ 'aria-label': label, spellcheck: 'false' }),
    EditorView.updateListener.of((u) => { if (u.docChanged) onChange(u.state.doc.toString()); }),
  ] }) });
  return {
    set: (now) => { if (now !== view.state.doc.toString()) view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: now } }); },
    focus: () => view.focus(),
    end: () => view.destroy(),
  };
}
