//! From an expression to the steps that the kernel half takes.
//!
//! Neighbour: [`crate::stagefile`] reads expressions; `mod.rs` says what an argument is at a place.
//!
//! Invariant: an expression that the kernel half cannot take whole is refused.

use waggle_probes::point::{Base, Register, STEPS_MAX, Step, Value};
use waggle_symbols::usdt;

use super::known::Known;
use crate::stagefile::Expression;

/// What an expression's names stand for at one place.
pub(super) trait Names {
    /// An argument, from 1.
    fn argument(&self, number: u8) -> Result<Value, String>;
    /// What the function returned.
    fn returned(&self) -> Result<Value, String>;
    /// The watched word.
    fn watched(&self) -> Result<Value, String>;
    /// A field of a tracepoint.
    fn field(&self, name: &str) -> Result<Value, String>;
    /// A register.
    fn register(&self, number: u8) -> Result<Value, String>;
    /// An exported object's address.
    fn symbol(&self, name: &str) -> Result<u64, String>;
    /// What waggle decoded.
    fn known(&self, name: &str) -> Result<Known, String>;
}

/// A value in the making: what is added after the last load comes last.
struct Sum {
    value: Value,
    add: i64,
}

impl Sum {
    fn new(base: Base, add: i64) -> Self {
        Self {
            value: Value {
                base,
                ..Value::default()
            },
            add,
        }
    }

    fn is_constant(&self) -> bool {
        self.value.base == Base::Zero && self.value.steps.is_empty() && self.value.keep == 0
    }

    fn finish(mut self) -> Result<Value, String> {
        if self.add != 0 {
            if self.value.keep != 0 {
                return Err("a sum cannot follow what keeps its low bytes only".into());
            }
            self.value.steps.push(Step {
                add: self.add,
                load: 0,
                signed: false,
            });
        }
        if self.value.steps.len() > STEPS_MAX {
            return Err(format!("it takes more than {STEPS_MAX} steps"));
        }
        Ok(self.value)
    }
}

/// The steps of an expression.
pub(super) fn lower(expression: &Expression, names: &impl Names) -> Result<Value, String> {
    sum(expression, names)?.finish()
}

fn of(value: Value) -> Sum {
    Sum { value, add: 0 }
}

fn sum(expression: &Expression, names: &impl Names) -> Result<Sum, String> {
    Ok(match expression {
        Expression::Number(number) => Sum::new(Base::Zero, number.cast_signed()),
        Expression::Argument(number) => of(names.argument(*number)?),
        Expression::Return => of(names.returned()?),
        Expression::New => of(names.watched()?),
        Expression::Field(name) => of(names.field(name)?),
        Expression::Register(number) => of(names.register(*number)?),
        Expression::ThreadPointer => Sum::new(Base::ThreadPointer, 0),
        Expression::Symbol(name) => Sum::new(Base::Image, names.symbol(name)?.cast_signed()),
        Expression::Known(name) => match names.known(name)? {
            Known::Offset(offset) => Sum::new(Base::Zero, offset),
            Known::Address(address) => Sum::new(Base::Image, address.cast_signed()),
            _ => return Err(format!("`${name}` is a place, no number")),
        },
        Expression::Add(left, right) => {
            let (mut left, mut right) = (sum(left, names)?, sum(right, names)?);
            if left.is_constant() {
                std::mem::swap(&mut left, &mut right);
            }
            if !right.is_constant() {
                return Err("of a sum, one part has to be a number".into());
            }
            left.add = left.add.wrapping_add(right.add);
            left
        }
        Expression::Subtract(left, right) => {
            let (mut left, right) = (sum(left, names)?, sum(right, names)?);
            if !right.is_constant() {
                return Err("only a number can be subtracted".into());
            }
            left.add = left.add.wrapping_sub(right.add);
            left
        }
        Expression::Load { bytes, signed, at } => {
            let mut at = sum(at, names)?;
            if at.value.keep != 0 {
                return Err("the low bytes of a number are no address".into());
            }
            at.value.steps.push(Step {
                add: at.add,
                load: *bytes,
                signed: *signed,
            });
            at.add = 0;
            at
        }
        Expression::Low { bytes, signed, of } => {
            let inner = sum(of, names)?;
            let mut value = inner.finish()?;
            if value.keep == 0 || value.keep >= *bytes {
                (value.keep, value.signed) = (*bytes, *signed);
            }
            Sum { value, add: 0 }
        }
    })
}

/// The value of a register.
pub(super) fn register(register: Register) -> Value {
    Value {
        base: Base::Register(register),
        ..Value::default()
    }
}

/// The value of a static probe's argument. Its bytes are taken without a sign: folly's macro marks
/// every argument as signed.
pub(super) fn static_argument(argument: &usdt::Argument) -> Result<Value, String> {
    let keep = if argument.bytes < 8 {
        argument.bytes
    } else {
        0
    };
    Ok(match argument.operand.clone()? {
        usdt::Operand::Constant(number) => Value {
            steps: vec![Step {
                add: number,
                load: 0,
                signed: false,
            }],
            keep,
            ..Value::default()
        },
        usdt::Operand::Register(from) => Value {
            keep,
            ..register(from)
        },
        usdt::Operand::Memory {
            base,
            offset,
            index,
        } => Value {
            base: match index {
                None => Base::Register(base),
                Some((index, scale)) => Base::Indexed(base, index, scale),
            },
            steps: vec![Step {
                add: offset,
                load: argument.bytes,
                signed: false,
            }],
            ..Value::default()
        },
    })
}
