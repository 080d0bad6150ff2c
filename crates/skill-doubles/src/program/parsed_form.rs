//! A parsed skill in the form of `expect.parse`: the header, and the targets with the fields of appendix A of the language.

use serde_json::{Map, Value, json};
use skill::tree::{
    DispatchOp, OpKind, ResultBinding, ShellCommand, SkillOp, SkillTarget, SkillTree, TextTemplate,
};

/// The whole skill. Fields that are null, false or empty are left out.
pub fn parsed_form(tree: &SkillTree) -> Value {
    let mut form = json!(tree.header);
    for (var, form) in tree.header.vars.iter().zip(form["vars"].as_array_mut().into_iter().flatten()) {
        form["required"] = json!(var.is_required());
    }
    let fields = [
        tree_form(tree),
        json!({
            "templateAmbiguousLines": tree.ambiguous_template_lines,
            "parseErrorKinds": tree.errors.iter().map(|error| error.kind).collect::<Vec<_>>(),
            "parseErrors": tree.errors.iter().map(|error| error.message.as_str()).collect::<Vec<_>>(),
        }),
    ];
    if let Some(form) = form.as_object_mut() {
        form.extend(fields.into_iter().filter_map(|fields| fields.as_object().cloned()).flatten());
        form.retain(|_, value| !matches!(value, Value::Null | Value::Bool(false)) && *value != json!([]));
    }
    form
}

/// The targets and the template of a tree in the form of the vectors. It has no numbers of lines.
pub fn tree_form(tree: &SkillTree) -> Value {
    let targets: Vec<Value> = tree.targets.iter().map(|target| target_form(tree, target)).collect();
    json!({
        "targets": targets,
        "entryTarget": tree.entry,
        "entryTargetExplicit": tree.has_default.then_some(true),
        "outputTemplate": tree.template.as_ref().map(TextTemplate::text),
    })
}

fn target_form(tree: &SkillTree, target: &SkillTarget) -> Value {
    let mut form = json!({
        "name": target.name, "deps": target.dependencies, "ops": ops_form(tree, &target.ops),
    });
    if let Some(block) = &target.error_block {
        form["elseBlock"] = ops_form(tree, block);
    }
    form
}

fn ops_form(tree: &SkillTree, ops: &[SkillOp]) -> Value {
    ops.iter().map(|op| op_form(tree, op)).collect()
}

/// An operation with the fields of appendix A.
fn op_form(tree: &SkillTree, op: &SkillOp) -> Value {
    let mut form = Map::new();
    form.insert("kind".to_owned(), json!(op.kind.word()));
    form.insert("body".to_owned(), json!(tree.body(op)));
    if let Some(ResultBinding { variable, fallback }) = op.binding() {
        let parts = [("outputVar", variable), ("fallback", fallback)];
        form.extend(
            parts.into_iter().filter_map(|(name, part)| Some((name.to_owned(), json!(part.as_ref()?)))),
        );
    }
    form.extend(op.approved().map(|reason| ("approved".to_owned(), json!(reason))));
    let fields = match &op.kind {
        OpKind::Set(op) => json!({"setName": op.variable, "setValue": op.value.text()}),
        OpKind::Append(op) => json!({"setName": op.variable, "setValue": op.value.text()}),
        // The reference has no `exchange`.
        OpKind::Emit(_) | OpKind::Reason(_) | OpKind::Exchange(_) => json!({}),
        OpKind::Dispatch(op) => dispatch_form(op),
        OpKind::Shell(op) => match &op.command {
            ShellCommand::Words(_) => json!({}),
            ShellCommand::Unsafe(_) => json!({"policy": "unsafe"}),
            ShellCommand::Argv(words) => {
                json!({"argv": words.iter().map(TextTemplate::text).collect::<Vec<_>>()})
            }
        },
        OpKind::FileRead(op) => {
            json!({"fileParams": present([("path", Some(op.path.text())), ("encoding", op.encoding.as_deref())])})
        }
        OpKind::FileWrite(op) => {
            json!({"fileParams": {"path": op.path.text(), "content": op.content.text()}})
        }
        OpKind::Notify(op) => {
            let text = |value: &Option<TextTemplate>| value.as_ref().map(|text| text.text().to_owned());
            let mut params = present([
                ("agent", Some(op.agent.text())),
                ("message", text(&op.message).as_deref()),
                ("event_type", text(&op.event_type).as_deref()),
                ("correlation_id", text(&op.correlation_id).as_deref()),
            ]);
            if let Some(connectors) = &op.connectors {
                params["connectors"] = json!(connectors);
            }
            json!({"notifyParams": params})
        }
        OpKind::Inline(op) => json!({"ampParams": {"skillName": op.skill, "args": {}}}),
        OpKind::Foreach(op) => json!({
            "foreachIter": op.variable, "foreachList": op.list, "foreachBody": ops_form(tree, &op.body),
        }),
        OpKind::If(op) => {
            let branches = op.branches.iter();
            let branches: Vec<Value> = branches
                .map(|branch| json!({"cond": branch.text, "body": ops_form(tree, &branch.body)}))
                .collect();
            let mut form = json!({"ifBranches": branches});
            if let Some(ops) = &op.otherwise {
                form["ifElseBody"] = ops_form(tree, ops);
            }
            form
        }
    };
    form.extend(fields.as_object().cloned().unwrap_or_default());
    Value::Object(form)
}

fn dispatch_form(op: &DispatchOp) -> Value {
    present([("mcpConnector", op.connector.as_deref())])
}

fn present<const N: usize>(fields: [(&str, Option<&str>); N]) -> Value {
    fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), json!(value?)))).collect()
}
