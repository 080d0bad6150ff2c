// What the reference's lint is told, in the form of `options.lint_facts`, and the skills of its store.

/** Connector classes, or undefined if nobody has said which there are. */
function classes(options) {
  if (options.classes !== undefined) return options.classes;
  const { registry } = options;
  if (registry === undefined) return undefined;
  return [
    ...registry.listSkillStoreClasses(),
    ...registry.listDataStoreClasses(),
    ...registry.listLocalModelClasses(),
    ...registry.listMcpConnectorClasses(),
  ];
}

function capabilities(options) {
  return classes(options)?.filter((one) => one.staticCapabilities !== undefined).flatMap((one) => {
    const { connector_type, features } = one.staticCapabilities();
    return Object.entries(features).filter(([, has]) => has === true).map(([flag]) => `${connector_type}.${flag}`);
  });
}

function toolSchema({ inputSchema = {} }) {
  const { properties, required, additionalProperties } = inputSchema;
  return {
    ...(properties === undefined ? {} : { arguments: Object.keys(properties) }),
    required: Array.isArray(required) ? required : [],
    is_open: additionalProperties === true || (typeof additionalProperties === "object" && additionalProperties !== null),
  };
}

async function describedTools(entry) {
  try {
    const described = (await entry.instance.describeTools?.()) ?? [];
    return new Map(described.filter(({ name }) => entry.allowedTools?.includes(name) ?? true).map((tool) => [tool.name, tool]));
  } catch {
    return new Map();
  }
}

async function connectors(options) {
  const { registry, mcpConnectorNames, mcpConnectorAllowedTools, mcpConnectorToolSchemas } = options;
  const entries = registry?.listMcpConnectors() ?? [];
  const names = mcpConnectorNames ?? (registry === undefined ? undefined : entries.map(({ name }) => name));
  const facts = {};
  for (const name of names ?? mcpConnectorToolSchemas?.keys() ?? []) {
    const entry = entries.find((entry) => entry.name === name);
    const tools = mcpConnectorToolSchemas === undefined
      ? (entry === undefined ? new Map() : await describedTools(entry))
      : (mcpConnectorToolSchemas.get(name) ?? new Map());
    const allowed = mcpConnectorAllowedTools === undefined ? entry?.allowedTools : mcpConnectorAllowedTools.get(name);
    const declared = entry?.ctor.staticTools?.();
    facts[name] = {
      ...(allowed === undefined ? {} : { allowed_tools: allowed }),
      ...(declared === undefined || declared === null ? {} : { declared_tools: declared }),
      schemas: Object.fromEntries([...tools].filter(([, tool]) => tool.inputSchema).map(([tool, described]) => [tool, toolSchema(described)])),
    };
  }
  return names === undefined && mcpConnectorToolSchemas === undefined ? undefined : facts;
}

async function models({ registry, localModelAliases, localModelsAvailable }) {
  if (localModelAliases !== undefined) return [...localModelAliases, ...(localModelsAvailable ?? [])];
  if (registry === undefined) return undefined;
  const names = [];
  for (const { name, instance } of registry.listLocalModels()) {
    names.push(name);
    try {
      const { manifest } = await instance.manifest();
      names.push(...(manifest.models_available ?? []));
    } catch {
      // A model that does not answer has only its name.
    }
  }
  return names;
}

async function storedSkills(store) {
  const [stored, counts] = [{}, {}];
  for (const { name } of await store.query()) {
    counts[name] = (counts[name] ?? 0) + 1;
    // Some stores of tests only list.
    stored[name] = (await store.load?.(name))?.source ?? `# Skill: ${name}\n`;
  }
  return { stored, same_name: Math.max(1, ...Object.values(counts)) };
}

/** The options of a case and its stored skills, from the options of `lint` or `compile`. */
export async function known(options = {}) {
  const agents = options.agentConnectorNames ?? options.registry?.listAgentConnectors().map(({ name }) => name);
  const wrongClasses = (options.connectorConfigErrors ?? []).filter((error) => /class/i.test(error));
  const facts = {
    connectors: await connectors(options),
    has_agent_connectors: agents === undefined ? undefined : agents.length > 0,
    models: await models(options),
    capabilities: capabilities(options),
    shell_programs: options.shellAllowlist,
    allows_unsafe_shell: options.enableUnsafeShell,
    list_tools: options.bareArrayReturnTools ?? [],
    unknown_connector_classes: wrongClasses,
  };
  const lint_facts = JSON.parse(JSON.stringify(facts));
  if (options.skillStore === undefined) return { options: { lint_facts, lint_no_store: true }, stored: {} };
  const { stored, same_name } = await storedSkills(options.skillStore);
  return { options: { lint_facts, same_name }, stored };
}
