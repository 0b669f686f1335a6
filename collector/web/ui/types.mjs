// The types of the API's answers, out of openapi.json: of each path under /api/v1 the names of its parameters and its answer.

function typeOf(schema) {
  if (schema.$ref) return schema.$ref.split('/').pop();
  if (schema.enum) return schema.enum.map((v) => JSON.stringify(v)).join(' | ');
  return [schema.type ?? 'unknown'].flat().map((name) => {
    if (name === 'integer' || name === 'number') return 'number';
    if (name === 'array') return `Array<${schema.items ? typeOf(schema.items) : 'unknown'}>`;
    return name === 'object' ? objectOf(schema) : name;
  }).join(' | ');
}

function objectOf(schema) {
  const properties = Object.entries(schema.properties ?? {}).map(([name, one]) =>
    `${JSON.stringify(name)}${schema.required?.includes(name) ? '' : '?'}: ${typeOf(one)}`);
  // one that may have more than it names: the names are those that this description knows
  const others = schema.additionalProperties;
  if (others === true || (!others && !properties.length)) properties.push('[name: string]: unknown');
  else if (others) properties.push(`[name: string]: ${typeOf(others)}`);
  return `{ ${properties.join('; ')} }`;
}

const names = (parameters, place) => parameters.filter((p) => p.in === place).map((p) => JSON.stringify(p.name)).join(' | ') || 'never';

/** The text of answers.ts: {PATH: {place, query, answer}}, place the parameters inside the path. */
export function typesOf(openapi) {
  const lines = Object.entries(openapi.components.schemas).map(([name, schema]) => `export type ${name} = ${typeOf(schema)};`);
  lines.push('export interface Api {');
  for (const [path, methods] of Object.entries(openapi.paths)) {
    const asked = methods.get ?? methods.post, parameters = asked.parameters ?? [];
    const schema = asked.responses['200'].content['application/json']?.schema ?? {};
    lines.push(`  ${JSON.stringify(path.replace('/api/v1/', ''))}: { place: ${names(parameters, 'path')}; query: ${names(parameters, 'query')}; answer: ${typeOf(schema)} };`);
  }
  return lines.join('\n') + '\n}\n';
}
