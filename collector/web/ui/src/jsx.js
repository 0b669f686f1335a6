// What JSX becomes.
export { h as element, Fragment } from 'preact';
