'use strict';

// Parses the text of a piece of code into its form: an expression, statements, or a function, and whether it is
// awaited. Node provides no JavaScript parser, so the compiler is asked whether a text would compile in certain places.
// Executes nothing except the text of a function, which yields the function and calls nothing.

const vm = require('vm');
const { HarnessError, atStage } = require('../harness/error.js');

/** A tail that starts like this continues the line before it, whatever line feeds are between. */
const CONTINUES = /^\s*(?:[*/%=<>&|^?:.,([`]|\+(?!\+)|-(?!-)|!=|in\b|instanceof\b)/;

const FUNCTION = /^(?:async\s+)?function\b[^]*\}$/;

/**
 * Parses a text into `{ kind, head, tail, async, arity }`. `tail` is the expression whose value is the result, or the
 * function; `head` are the statements before it.
 */
function formOf(text, name) {
  const trimmed = text.replace(/[;\s]+$/, '');
  if (trimmed.trim() === '') throw new HarnessError('parse', 'SyntaxError', 'there is no code');
  if (isFunction(trimmed)) return functionForm(trimmed, name);
  if (compiles(`(${trimmed}\n)`)) return form('expression', '', trimmed, awaits(`(${trimmed}\n)`));
  const awaited = awaits(text);
  // A text with return, break or continue would leave the loop that it becomes a part of. A script rejects these;
  // `void` replaces `await`, which a script does not have.
  checked(awaited ? text.replace(/\bfor(\s+)await\b/g, 'for$1').replace(/\bawait\b/g, 'void ') : text, name);
  const tailStart = splitAt(trimmed);
  if (tailStart < 0) return form('statements', text, '', awaited);
  return form('statements', trimmed.slice(0, tailStart), trimmed.slice(tailStart), awaited);
}

function form(kind, head, tail, async, arity) {
  return { kind, head, tail, async, arity };
}

function functionForm(text, name) {
  const made = checked(`(${text}\n)`, name).runInThisContext();
  return form('function', '', text, made.constructor.name === 'AsyncFunction', made.length);
}

/** Whether the whole text is one function; an expression that merely evaluates to one does not count. */
function isFunction(text) {
  const code = text.replace(/^(?:\s|\/\/.*\n|\/\*[^]*?\*\/)+/, '');
  if (!FUNCTION.test(code) && !isArrow(code)) return false;
  // Further statements after the body do not fit between parentheses.
  return compiles(`(${text}\n)`) || !compiles(text);
}

function isArrow(code) {
  const signature = code.replace(/^async\b\s*/, '');
  if (/^[\w$]+\s*=>/.test(signature)) return true;
  return signature.startsWith('(') && /^\s*=>/.test(signature.slice(closing(signature) + 1));
}

/** Returns the index of the parenthesis that closes the first one. */
function closing(text) {
  let depth = 0;
  let quote = '';
  for (let i = 0; i < text.length; i++) {
    const character = text[i];
    if (quote) {
      if (character === '\\') i++;
      else if (character === quote) quote = '';
    } else if ('\'"`'.includes(character)) quote = character;
    else if (character === '(') depth++;
    else if (character === ')' && --depth === 0) return i;
  }
  return text.length;
}

/**
 * Whether an iteration assigns to a property of a value created by a hook. That outlives the iteration, so the compiler
 * cannot remove it.
 */
function assignsState({ kind, text }) {
  const parameter = kind === 'function' ? /^\s*(?:async\b\s*)?(?:function\b[^(]*)?\(?\s*([\w$]+)/.exec(text) : null;
  const names = ['shared', parameter ? parameter[1].replace(/\$/g, '\\$&') : 'state'];
  const property = `(?<![\\w$.])(?:${names.join('|')})(?:\\.[\\w$]+|\\[[^\\]]*\\])+`;
  const assigned = `${property}\\s*(?:\\+\\+|--|(?:\\*\\*|<<|>>>?|&&|\\|\\||\\?\\?|[-+*/%&|^])?=(?![=>]))`;
  return new RegExp(`${assigned}|(?:\\+\\+|--)\\s*${property}`).test(text);
}

/** Returns where the last statement begins, if it is an expression, else -1. A head that an added brace does not
 * invalidate ends in a comment. */
function splitAt(text) {
  for (let i = text.length; i > 0; i--) {
    const border = text[i - 1];
    if (border !== ';' && border !== '\n' && border !== '}') continue;
    const [head, tail] = [text.slice(0, i), text.slice(i)];
    if (border !== ';' && CONTINUES.test(tail)) continue;
    if (/\S/.test(tail) && compiles(`(${tail}\n)`) && compiles(head) && !compiles(`${head}}`)) return i;
  }
  return -1;
}

/** Whether the text has an `await` outside of nested functions: a static block must not contain one. */
function awaits(text) {
  return /\bawait\b/.test(text) && !scriptCompiles(`class A { static { ${text}\n } }`);
}

/** Whether a text compiles as a script, or in an async context. */
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

/** Compiles a text as a script; an error carries the line of the user's text. */
function checked(text, name) {
  try {
    return new vm.Script(text, { filename: fileName(name) });
  } catch (error) {
    throw atStage('parse', error);
  }
}

/** File name of a piece of code in stack traces. */
function fileName(name) {
  return `[${name}]`;
}

Object.assign(exports, { assignsState, formOf, fileName });
