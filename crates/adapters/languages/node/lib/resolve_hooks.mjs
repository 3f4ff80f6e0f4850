// Runs in the loader's thread of Node 20 and 22: resolves one name to the address passed by lib/resolve.js.

let name;
let url;

export function initialize(data) {
  ({ name, url } = data);
}

export async function resolve(specifier, context, next) {
  if (specifier === name) return { url, format: 'commonjs', shortCircuit: true };
  return next(specifier, context);
}
