// The rules of the dashboard's source: mistakes that the compiler does not see, and a form that all files share. Called by lint.sh, in the
// repository's root. EA_PACKAGES is the folder whose node_modules has what package-lock.json names.
import { createRequire } from 'node:module';
import { join } from 'node:path';

const require = createRequire(join(process.env.EA_PACKAGES, 'package.json'));
const types = require('typescript-eslint'), form = require('@stylistic/eslint-plugin'), hooks = require('eslint-plugin-react-hooks');

export default [{
  files: ['**/*.{ts,tsx}'],
  languageOptions: { parser: types.parser, parserOptions: { project: process.env.EA_TSCONFIG } },
  plugins: { ts: types.plugin, form: form.default ?? form, hooks },
  linterOptions: { reportUnusedDisableDirectives: 'error' },
  rules: {
    // what runs text as code, or puts text into the page as markup: the page shows what an attacker's machine sends
    'no-eval': 'error',
    'no-new-func': 'error',
    'no-script-url': 'error',
    'ts/no-implied-eval': 'error',
    'no-restricted-syntax': ['error',
      { selector: "JSXAttribute[name.name='dangerouslySetInnerHTML']", message: 'text goes into the page as text' },
      { selector: "MemberExpression[property.name=/^(innerHTML|outerHTML|insertAdjacentHTML)$/]", message: 'text goes into the page as text' }],
    'no-restricted-globals': ['error', 'alert', 'confirm', 'prompt', 'event', 'name'],
    // promises without an answer to their failure
    'ts/no-floating-promises': 'error',
    'ts/await-thenable': 'error',
    'ts/no-for-in-array': 'error',
    'ts/no-base-to-string': 'error',
    'ts/restrict-plus-operands': 'error',
    'ts/no-explicit-any': 'error',
    'ts/switch-exhaustiveness-check': 'error',
    'ts/prefer-optional-chain': 'error',
    'ts/require-array-sort-compare': ['error', { ignoreStringArrays: true }],
    'ts/ban-ts-comment': 'error',
    'hooks/rules-of-hooks': 'error',
    eqeqeq: 'error',
    'no-var': 'error',
    'prefer-const': ['error', { destructuring: 'all' }],
    'no-console': 'error',
    'no-debugger': 'error',
    'no-self-compare': 'error',
    'no-template-curly-in-string': 'error',
    'no-unmodified-loop-condition': 'error',
    'no-unreachable-loop': 'error',
    'array-callback-return': 'error',
    'no-constant-binary-expression': 'error',
    'no-control-regex': 'error',
    'no-misleading-character-class': 'error',
    'no-unsafe-finally': 'error',
    'no-useless-escape': 'error',
    'no-loss-of-precision': 'error',
    'max-depth': ['error', 4],
    // form
    'form/semi': 'error',
    'form/quotes': ['error', 'single', { avoidEscape: true }],
    'form/jsx-quotes': 'error',
    'form/no-trailing-spaces': 'error',
    'form/no-tabs': 'error',
    'form/eol-last': 'error',
    'form/no-multiple-empty-lines': ['error', { max: 1, maxEOF: 0 }],
    'form/comma-spacing': 'error',
    'form/keyword-spacing': 'error',
    'form/space-infix-ops': 'error',
    'form/space-before-blocks': 'error',
    'form/object-curly-spacing': ['error', 'always'],
    'form/array-bracket-spacing': 'error',
    'form/arrow-parens': 'error',
    'form/arrow-spacing': 'error',
    'form/member-delimiter-style': ['error', { multiline: { delimiter: 'semi', requireLast: true }, singleline: { delimiter: 'semi', requireLast: false } }],
    'form/brace-style': ['error', '1tbs', { allowSingleLine: true }],
  },
}];
