// What every client for Node must be able to do with our tools.
import assert from 'node:assert/strict';

const TOOLS = [
  'agent_list', 'ask', 'blocked_shell_attempts', 'compile_skill', 'data_read', 'data_write', 'execute_skill',
  'health_metrics', 'help', 'lint_skill', 'list_triggers', 'notify', 'register_trigger', 'set_trigger_enabled',
  'skill_list', 'skill_preflight', 'skill_read', 'skill_status', 'skill_write', 'unregister_trigger', 'wake',
];

export const endpoint = new URL(`${process.env.POSTHOUSE_URL}/mcp`);
export const headers = { Authorization: process.env.AUTHORIZATION };
export const command = {
  command: process.env.POSTHOUSE_BIN,
  args: ['mcp', '--stdio'],
  env: Object.fromEntries(['POSTHOUSE_URL', 'POSTHOUSE_CLIENT_ID', 'POSTHOUSE_CLIENT_SECRET'].map((name) => [name, process.env[name]])),
};

export async function check(label, client) {
  const { tools } = await client.listTools();
  assert.deepEqual(tools.map((tool) => tool.name).sort(), TOOLS);
  const call = async (name, args = {}) => {
    const result = await client.callTool({ name, arguments: args });
    assert.ok(!result.isError);
    return JSON.parse(result.content[0].text);
  };
  const written = await call('data_write', { content: `the ${label} wind turns`, tags: ['air'] });
  const found = await call('data_read', { query: label });
  assert.deepEqual(found.items.map((item) => item.id), [written.id]);
  const source = `# Skill: ${label}\n# Status: Approved\ngo:\n    emit(text="hi")\ndefault: go\n`;
  assert.equal((await call('skill_write', { name: label, source })).status, 'Draft');
  assert.equal((await call('skill_read', { name: label })).status, 'Draft');
  assert.deepEqual((await call('agent_list')).items.map((agent) => agent.agent_id), ['heron']);
  await assert.rejects(client.callTool({ name: 'skill_read', arguments: { name: 'ghost' } }), /Skill not found: 'ghost'/);
  await assert.rejects(client.callTool({ name: 'data_read', arguments: { query: 'x', flavour: 'sweet' } }), /flavour/);
  await client.close();
  console.log(`${label}: ${tools.length} tools`);
}
