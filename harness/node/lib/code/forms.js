'use strict';

// From the text of a piece of code to its form: an expression, statements, or a function, and whether it is awaited.
// Node has no parser for JavaScript to ask, so the compiler is asked whether a text would compile in certain places.
// Nothing is executed here but the text of a function, which gives the function and calls nothing.

const vm = require('vm');
const { HarnessError, atStage } = require('../harness/session.js');

/** A tail that begins so continues the line before it, whatever line feeds are between. */
const CONTINUES = /^\s*(?:[*/%=<>&|^?:.,([`]|\+(?!\+)|-(?!-)|!=|in\b|instanceof\b)/;

const FUNCTION = /^(?:async\s+)?function\b[^]*\}$/;

/**
 * `{ kind, head, tail, async, arity }` of a text. `tail` is the expression whose value is the result, or the function;
 * `head` are the statements before it.
 */
function formOf(text, name) {
  const trimmed = text.replace(/[;\s]+$/, '');
  if (trimmed.trim() === '') throw new HarnessError('parse', 'SyntaxError', 'there is no code');
  if (isFunction(trimmed)) return functionForm(trimmed, name);
  if (compiles(`(${trimmed}\n)`)) return form('expression', '', trimmed, awaits(`(${trimmed}\n)`));
  const awaited = awaits(text);
  // A text that may return, break or continue would leave the loop that it becomes a part of. As a script it may not;
  // `void` stands in the place of `await`, which a script does not have.
  checked(awaited ? text.replace(/\bfor(\s+)await\b/g, 'for$1').replace(/\bawait\b/g, 'void ') : text, name);
  const at = splitAt(trimmed);
  if (at < 0) return form('statements', text, '', awaited);
  return form('statements', trimmed.slice(0, at), trimmed.slice(at), awaited);
}

function form(kind, head, tail, async, arity) {
  return { kind, head, tail, async, arity };
}

function functionForm(text, name) {
  const made = checked(`(${text}\n)`, name).runInThisContext();
  return form('function', '', text, made.constructor.name === 'AsyncFunction', made.length);
}

/** Whether the whole text is one function; an expression whose value happens to be one is not. */
function isFunction(text) {
  const code = text.replace(/^(?:\s|\/\/.*\n|\/\*[^]*?\*\/)+/, '');
  if (!FUNCTION.test(code) && !isArrow(code)) return false;
  // What follows the body, such as further statements, does not fit between parentheses.
  return compiles(`(${text}\n)`) || !compiles(text);
}

function isArrow(code) {
  const rest = code.replace(/^async\b\s*/, '');
  if (/^[\w$]+\s*=>/.test(rest)) return true;
  return rest.startsWith('(') && /^\s*=>/.test(rest.slice(closing(rest) + 1));
}

/** The place of the parenthesis that closes the first one. */
function closing(text) {
  let depth = 0;
  let quote = '';
  for (let at = 0; at < text.length; at++) {
    const character = text[at];
    if (quote) {
      if (character === '\\') at++;
      else if (character === quote) quote = '';
    } else if ('\'"`'.includes(character)) quote = character;
    else if (character === '(') depth++;
    else if (character === ')' && --depth === 0) return at;
  }
  return text.length;
}

/**
 * Whether an iteration assigns to a property of a value that a hook has made. That outlives the iteration, so the compiler
 * cannot leave it out.
 */
function assignsState({ kind, text }) {
  const parameter = kind === 'function' ? /^\s*(?:async\b\s*)?(?:function\b[^(]*)?\(?\s*([\w$]+)/.exec(text) : null;
  const names = ['shared', parameter ? parameter[1].replace(/\$/g, '\\$&') : 'state'];
  const property = `(?<![\\w$.])(?:${names.join('|')})(?:\\.[\\w$]+|\\[[^\\]]*\\])+`;
  const assigned = `${property}\\s*(?:\\+\\+|--|(?:\\*\\*|<<|>>>?|&&|\\|\\||\\?\\?|[-+*/%&|^])?=(?![=>]))`;
  return new RegExp(`${assigned}|(?:\\+\\+|--)\\s*${property}`).test(text);
}

/** Where the last statement begins, if it is an expression; -1 otherwise. A head that a brace does not spoil ends in a
 * comment. */
function splitAt(text) {
  for (let at = text.length; at > 0; at--) {
    const border = text[at - 1];
    if (border !== ';' && border !== '\n' && border !== '}') continue;
    const [head, tail] = [text.slice(0, at), text.slice(at)];
    if (border !== ';' && CONTINUES.test(tail)) continue;
    if (/\S/.test(tail) && compiles(`(${tail}\n)`) && compiles(head) && !compiles(`${head}}`)) return at;
  }
  return -1;
}

/** Whether an `await` of the text is its own and not that of a function in it: a static block may have none. */
function awaits(text) {
  return /\bawait\b/.test(text) && !scriptCompiles(`class A { static { ${text}\n } }`);
}

/** Whether a text compiles as a script, or where `await` is understood. */
function compiles(text) {
  if (/\bawait\b/.test(text)) return scriptCompiles(`async () => { ${text}\n }`);
  return scriptCompiles(text);
}

function scriptCompiles(text) {
  try {
    new vm.Script(text);
    return true;
  } catch {
    return false;
  }
}

/** The script of a text, or the error of the compiler with the line of the user's text. */
function checked(text, name) {
  try {
    return new vm.Script(text, { filename: fileName(name) });
  } catch (error) {
    throw atStage('parse', error);
  }
}

/** What stacks call a piece of code. */
function fileName(name) {
  return `[${name}]`;
}

Object.assign(exports, { assignsState, formOf, fileName });
