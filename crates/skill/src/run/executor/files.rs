//! The operations `file_read` and `file_write`.

use std::sync::Arc;

use super::{BoundVariable, Executor};
use crate::run::host::{FileEncoding, FileFault};
use crate::run::limits::too_large;
use crate::run::run_error::{ErrorClass, RunError};
use crate::run::utf16::utf16_length;
use crate::syntax::tree::{FileReadOp, FileWriteOp};

impl<'r> Executor<'r> {
    pub(super) async fn read_file(&mut self, op: &'r FileReadOp) -> Result<BoundVariable<'r>, RunError> {
        let path = self.scope().text(&op.path)?;
        if self.context.is_mechanical {
            self.emit(Arc::new(format!("Would read file: {path} (mechanical: true preview).")))?;
            return self.bind(&op.binding, format!("[mechanical: would read {path}]").into());
        }
        let encoding = match op.encoding.as_deref() {
            None | Some("utf8") => Ok(FileEncoding::Utf8),
            Some("base64") => Ok(FileEncoding::Base64),
            Some(other) => Err(RunError::op_error(format!("unknown encoding '{other}' of `file_read`"))
                .with_remedy("Use encoding=\"utf8\" or encoding=\"base64\"")),
        };
        // A path that is not allowed is refused before the encoding is looked at.
        let result = self.host.read_file(&path, *encoding.as_ref().unwrap_or(&FileEncoding::Utf8)).await;
        if let Err(FileFault::NotAllowed) = result {
            return Err(not_allowed("file_read", &path));
        }
        encoding?;
        let failed = match result {
            Ok(content) if content.len() <= self.limits().standard_output => {
                return self.bind(&op.binding, content.into());
            }
            Ok(_) => too_large(&format!("the file '{path}'"), self.limits().standard_output).message,
            Err(FileFault::Failed(reason)) => reason,
            Err(FileFault::NotAllowed) => String::new(),
        };
        match &op.binding.fallback {
            Some(fallback) => {
                let reason = format!("file_read failed: {failed}");
                self.bind_fallback(&op.binding, "file_read", (&**fallback).into(), reason)
            }
            None => Err(RunError::op_error(format!("`file_read` of '{path}' failed: {failed}"))
                .with_remedy("Check that the file exists and can be read, or add `(fallback: …)`")),
        }
    }

    pub(super) async fn write_file(&mut self, op: &FileWriteOp) -> Result<(), RunError> {
        let path = self.scope().text(&op.path)?;
        let content = self.scope().text(&op.content)?;
        if self.context.is_mechanical {
            let length = utf16_length(&content);
            return self.emit(Arc::new(format!(
                "Would write file: {path} ({length} chars; mechanical: true preview)."
            )));
        }
        match self.host.write_file(&path, &content).await {
            Ok(()) => self.emit(Arc::new(format!("[file_write] wrote {} bytes to {path}", content.len()))),
            Err(FileFault::NotAllowed) => Err(not_allowed("file_write", &path)),
            Err(FileFault::Failed(reason)) => {
                Err(RunError::op_error(format!("`file_write` of '{path}' failed: {reason}"))
                    .with_remedy("Check that the path can be written"))
            }
        }
    }
}

fn not_allowed(op_kind: &str, path: &str) -> RunError {
    let message = format!("`{op_kind}`: the path '{path}' is not under a folder that the operator allows");
    RunError::new(ErrorClass::FilePathNotAllowed, message)
        .with_remedy("Ask the operator to allow the folder, or use an allowed one")
}
