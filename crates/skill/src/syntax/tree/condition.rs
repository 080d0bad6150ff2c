//! Conditions of `if` and `elif`.

use super::text_template::Reference;

/// A condition. `And` and `Or` stop at the first side that decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    Or(Box<Condition>, Box<Condition>),
    And(Box<Condition>, Box<Condition>),
    Not(Box<Condition>),
    /// `${A}`: whether the value counts as true.
    Truthy(Reference),
    Compare {
        left: Reference,
        comparison: Comparison,
        right: Operand,
    },
    /// `${A} in ${B}`. The right side has no filters.
    In {
        left: Reference,
        is_negated: bool,
        right: Reference,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Comparison {
    /// The operator as it is written.
    pub fn word(self) -> &'static str {
        match self {
            Self::Equal => "==",
            Self::NotEqual => "!=",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
        }
    }
}

/// The right side of a comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operand {
    /// The text between double quotes. It has no escapes.
    Literal(Box<str>),
    Reference(Reference),
}
