//! From a spec to what the kernel half reads.
//!
//! Invariant: nothing is cut silently; what has no room was refused before ([`super::spec`]).

use super::skeleton::types;
use super::spec::{Attach, Base, Comparison, Follow, PointSpec, Register, Test, Value};
use crate::plain::Plain;

/// The processor's number of the register.
fn number(register: Register) -> u8 {
    register.0 & 15
}

fn small(number: u32) -> u8 {
    u8::try_from(number).unwrap_or(u8::MAX)
}

fn value(value: &Value) -> types::point_value {
    use types::point_base as base;
    let mut made = types::point_value {
        keep: value.keep,
        keep_signed: value.signed.into(),
        steps: u8::try_from(value.steps.len().min(super::STEPS_MAX)).unwrap_or(0),
        ..Default::default()
    };
    match value.base {
        Base::Zero => made.base = small(base::BASE_ZERO.0),
        Base::Register(register) => {
            made.base = small(base::BASE_REGISTER.0);
            made.reg = number(register);
        }
        Base::Indexed(register, index, scale) => {
            made.base = small(base::BASE_INDEXED.0);
            (made.reg, made.index, made.scale) = (number(register), number(index), scale);
        }
        Base::Image => made.base = small(base::BASE_IMAGE.0),
        Base::ThreadPointer => made.base = small(base::BASE_THREAD.0),
        Base::Field {
            offset,
            bytes,
            signed,
        } => {
            made.base = small(base::BASE_FIELD.0);
            (made.field, made.field_bytes, made.field_signed) = (offset, bytes, signed.into());
        }
    }
    for (slot, step) in made.step.iter_mut().zip(&value.steps) {
        slot.add = step.add;
        slot.load = step.load.into();
        slot.is_signed = step.signed.into();
    }
    made
}

fn test(test: &Test) -> types::point_test {
    use types::point_comparison as how;
    types::point_test {
        value: value(&test.value),
        with: test.with,
        in_image: test.in_image.into(),
        comparison: match test.comparison {
            Comparison::Equal => how::COMPARE_EQUAL,
            Comparison::NotEqual => how::COMPARE_NOT_EQUAL,
            Comparison::Less => how::COMPARE_LESS,
            Comparison::AtLeast => how::COMPARE_AT_LEAST,
        }
        .0,
    }
}

/// The return address is on top of the stack where this place is passed.
fn is_return_on_top(spec: &PointSpec) -> bool {
    match &spec.attach {
        Attach::At { place, .. } => place.return_on_top,
        _ => false,
    }
}

fn follow(follow: Follow) -> u8 {
    use types::point_follow as how;
    small(match follow {
        Follow::AsItIs => how::POINT_FOLLOW_AS_IT_IS.0,
        Follow::Begins => how::POINT_FOLLOW_BEGINS.0,
        Follow::Ends => how::POINT_FOLLOW_ENDS.0,
        Follow::Stage => how::POINT_FOLLOW_STAGE.0,
    })
}

pub(super) fn spec(spec: &PointSpec) -> types::point_spec {
    let wanted = types::point_stack::STACK_WANTED.0;
    let top = types::point_stack::STACK_TOP.0;
    let mut made = types::point_spec {
        point: spec.point,
        tests: u8::try_from(spec.tests.len().min(super::spec::TESTS_MAX)).unwrap_or(0),
        stack: match (spec.stack, is_return_on_top(spec)) {
            (false, _) => 0,
            (true, false) => small(wanted),
            (true, true) => small(wanted | top),
        },
        follow: follow(spec.follow),
        value: value(&spec.value),
        second: value(&spec.second),
        ..Default::default()
    };
    for (slot, wanted) in made.test.iter_mut().zip(&spec.tests) {
        *slot = test(wanted);
    }
    made
}

// SAFETY: integers without padding.
unsafe impl Plain for types::point_spec {}
