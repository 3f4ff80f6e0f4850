'use strict';

// From the call frames of a paused program to plain data: functions, places, variables as text. Everything has a
// limit, because it happens at each pause and a program can hold anything.

const FRAMES = 20;
const VARIABLES = 50;
const LETTERS = 200;

// V8's name for all that it has handed out of a paused program; what is asked about such an object belongs to it as
// well. It is let go of after each pause: else the session would keep the objects alive.
const GROUP = 'backtrace';

const SCOPES = new Set(['local', 'block', 'catch', 'closure']);

// `scripts` knows where the scripts come from, by their ids; `command(method, parameters)` asks the session and
// gives its answer.
function statesAt(callFrames, scripts, command) {
  const frames = callFrames.slice(0, FRAMES).map((frame) => {
    const { scriptId, lineNumber, columnNumber = 0 } = frame.location;
    const url = scripts.get(scriptId) ?? '';
    return {
      function: frame.functionName || '(anonymous)',
      place: `${url}:${lineNumber + 1}:${columnNumber + 1}`,
      // Node's own variables help nobody to understand a crash.
      variables: url.startsWith('node:') ? {} : variablesOf(frame, command),
    };
  });
  command('Runtime.releaseObjectGroup', { objectGroup: GROUP });
  return frames;
}

// Inner scopes come first, and what they hide stays hidden.
function variablesOf(frame, command) {
  const variables = {};
  for (const scope of frame.scopeChain) {
    if (!SCOPES.has(scope.type)) continue;
    const { result } = command('Runtime.getProperties', {
      objectId: scope.object.objectId,
      ownProperties: true,
      generatePreview: true,
    });
    for (const { name, value } of result) {
      if (Object.hasOwn(variables, name)) continue;
      if (Object.keys(variables).length === VARIABLES) return variables;
      variables[name] = shown(value);
    }
  }
  return variables;
}

// A variable before its declaration has no value. Of an object, its first properties say more than its class.
function shown(value) {
  if (value === undefined) return '(no value)';
  if (value.type === 'string') return cut(JSON.stringify(value.value));
  const text = value.description ?? String(value.value);
  const { properties = [], overflow } = value.preview ?? {};
  if (properties.length === 0) return cut(text);
  const inside = properties.map((property) => `${property.name}: ${property.value}`);
  return cut(`${text} { ${inside.join(', ')}${overflow ? ', ...' : ''} }`);
}

function cut(text) {
  return text.length > LETTERS ? `${text.slice(0, LETTERS)}...` : text;
}

module.exports = { statesAt };
