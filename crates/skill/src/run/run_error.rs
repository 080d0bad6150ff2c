//! Errors of a run: their classes, and the error that an operation throws until a block catches it.

use std::borrow::Cow;
use std::sync::Arc;

use super::object::SkillObject;
use super::value::SkillValue;

/// The class of an error, as `class` of an error record names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ErrorClass {
    OpError,
    ConnectorNotFound,
    OpTimeout,
    UnsafeShellDisabled,
    ShellBinaryNotAllowed,
    FilePathNotAllowed,
    MissingSkillReference,
    UnresolvedVariable,
    TypeMismatch,
    UnconfirmedMutation,
    ExchangeAddress,
    RunDeadlineExceeded,
    SecuredModeEffect,
    RecursionDepthExceeded,
    ApprovalRejected,
    LintFailure,
    SecretNotProvisioned,
    /// An error of a connector or of the language without a class of its own.
    Plain,
    /// A class that a host names, for example `DeliveryFailedError`.
    Other(Arc<str>),
}

impl ErrorClass {
    pub fn name(&self) -> &str {
        match self {
            Self::OpError => "OpError",
            Self::ConnectorNotFound => "ConnectorNotFoundError",
            Self::OpTimeout => "OpTimeoutError",
            Self::UnsafeShellDisabled => "UnsafeShellDisabledError",
            Self::ShellBinaryNotAllowed => "ShellBinaryNotAllowedError",
            Self::FilePathNotAllowed => "FilePathNotAllowedError",
            Self::MissingSkillReference => "MissingSkillReferenceError",
            Self::UnresolvedVariable => "UnresolvedVariableError",
            Self::TypeMismatch => "TypeMismatchError",
            Self::UnconfirmedMutation => "UnconfirmedMutationError",
            Self::ExchangeAddress => "ExchangeAddressError",
            Self::RunDeadlineExceeded => "RunDeadlineExceeded",
            Self::SecuredModeEffect => "SecuredModeEffectError",
            Self::RecursionDepthExceeded => "RecursionDepthExceededError",
            Self::ApprovalRejected => "ApprovalRejectedError",
            Self::LintFailure => "LintFailureError",
            Self::SecretNotProvisioned => "SecretNotProvisionedError",
            Self::Plain => "Error",
            Self::Other(name) => name,
        }
    }
}

/// An error on its way to the block that catches it.
///
/// Each operation that it passes adds what the error does not know yet: the kind of the operation, then the target.
#[derive(Clone, Debug)]
pub struct RunError {
    pub class: ErrorClass,
    pub message: String,
    pub remedy: Option<Cow<'static, str>>,
    pub op_kind: Option<&'static str>,
    pub target: Option<Arc<str>>,
    /// The operation that the deadline of the run cut off.
    pub cut: Option<Box<CutOperation>>,
    pub(super) is_final: bool,
}

/// An operation that was under way when the deadline of the run passed.
#[derive(Clone, Debug)]
pub struct CutOperation {
    pub op_kind: &'static str,
    pub label: String,
    /// Whether it may have had an effect that nobody has confirmed.
    pub is_uncertain: bool,
}

impl RunError {
    pub fn new(class: ErrorClass, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { class, message, remedy: None, op_kind: None, target: None, cut: None, is_final: false }
    }

    pub fn op_error(message: impl Into<String>) -> Self {
        Self::new(ErrorClass::OpError, message)
    }

    /// An error without a class of its own.
    pub fn plain(message: impl Into<String>) -> Self {
        Self::new(ErrorClass::Plain, message)
    }

    pub fn unresolved(reference: &str) -> Self {
        // The reference implementation reports these under `?`, whatever the operation is.
        Self::new(
            ErrorClass::UnresolvedVariable,
            format!("Unresolved variable reference at runtime: $({reference})"),
        )
        .of("?")
        .with_remedy(
            "Declare the variable in `# Vars:`, bind it in an earlier operation, or add `|fallback:\"…\"`",
        )
    }

    pub fn with_remedy(mut self, remedy: impl Into<Cow<'static, str>>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }

    /// Names the kind of the operation, unless the error already names one.
    pub fn of(mut self, op_kind: &'static str) -> Self {
        self.op_kind.get_or_insert(op_kind);
        self
    }

    pub fn in_target(mut self, target: &Arc<str>) -> Self {
        self.target.get_or_insert_with(|| Arc::clone(target));
        self
    }

    /// Makes it an error that no error block of the skill can handle.
    pub fn ending_run(mut self) -> Self {
        self.is_final = true;
        self
    }

    pub fn ends_run(&self) -> bool {
        self.is_final || self.class == ErrorClass::RunDeadlineExceeded
    }
}

/// One entry of `errors` in the result of a run.
#[derive(Clone, Debug)]
pub struct ErrorRecord {
    pub target: Arc<str>,
    pub op_kind: Cow<'static, str>,
    pub message: String,
    pub class: ErrorClass,
    pub remediation: Option<Cow<'static, str>>,
}

impl ErrorRecord {
    /// The record of an error that ended `target`. An error block names its own kind.
    pub fn new(error: RunError, target: &Arc<str>, op_kind: Option<&'static str>) -> Self {
        Self {
            target: error.target.unwrap_or_else(|| Arc::clone(target)),
            op_kind: op_kind.or(error.op_kind).unwrap_or("?").into(),
            message: error.message,
            class: error.class,
            remediation: error.remedy,
        }
    }
    pub fn to_value(&self) -> SkillValue {
        let mut record = SkillObject::default();
        record.set("target", &*self.target);
        record.set("opKind", &*self.op_kind);
        record.set("message", self.message.as_str());
        record.set("class", self.class.name());
        record.set_some("remediation", self.remediation.as_deref());
        record.into()
    }
}
