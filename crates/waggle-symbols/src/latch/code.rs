//! The server's functions that are decoded for latches, and what single instructions of them say.
//!
//! Neighbours: `innodb` and `metadata` know what the functions do. Invariant: an operand is a place
//! in an object only as `[register + offset]`, with an offset that an object may have.

use iced_x86::{Code, Decoder, DecoderOptions, Instruction, Register as Machine};

use crate::elf::{Binary, Function};

pub(super) const RESERVE: &str = "_Z23sync_array_reserve_cellP12sync_array_tPv";
pub(super) const WAIT: &str = "_Z21sync_array_wait_eventP12sync_array_t";
pub(super) const FREE: &str = "_Z20sync_array_free_cellP12sync_array_t";
pub(super) const EVENT_WAIT: &str = "_Z17os_event_wait_lowP8os_event";
pub(super) const EVENT_SET: &str = "_Z12os_event_setP8os_event";
pub(super) const EVENT_CREATE: &str = "_Z15os_event_createv";
pub(super) const MUTEX_EXIT: &str = "_ZN14TTASEventMutexI13GenericPolicyE4exitEv";
pub(super) const MUTEX_WAIT: &str = "_ZN14TTASEventMutexI13GenericPolicyE4waitE";
pub(super) const MUTEX_INIT: &str =
    "_Z10mutex_initI11PolicyMutexI14TTASEventMutexI13GenericPolicyEEE";
pub(super) const RW_CREATE: &str = "_Z19rw_lock_create_funcP9rw_lock_t";
pub(super) const RW_MOVE: &str = "_Z29rw_lock_x_lock_move_ownershipP9rw_lock_t";
pub(super) const RW_S: &str = "_Z19rw_lock_s_lock_spinP9rw_lock_t";
pub(super) const RW_SX: &str = "_Z20rw_lock_sx_lock_funcP9rw_lock_t";
pub(super) const RW_X: &str = "_Z19rw_lock_x_lock_funcP9rw_lock_t";
pub(super) const VISIT_CONTEXT: &str =
    "_ZN11MDL_context14visit_subgraphEP26MDL_wait_for_graph_visitor";
pub(super) const TICKET_ACCEPT: &str =
    "_ZN10MDL_ticket14accept_visitorEP26MDL_wait_for_graph_visitor";

pub(super) fn wanted(name: &str) -> bool {
    [
        RESERVE,
        WAIT,
        FREE,
        EVENT_WAIT,
        EVENT_SET,
        EVENT_CREATE,
        MUTEX_EXIT,
        MUTEX_WAIT,
        MUTEX_INIT,
        RW_CREATE,
        RW_MOVE,
        RW_S,
        RW_SX,
        RW_X,
        VISIT_CONTEXT,
        TICKET_ACCEPT,
    ]
    .iter()
    .any(|wanted| name.starts_with(wanted))
}

pub(super) fn function(binary: &Binary, prefix: &str) -> Result<Function, String> {
    let found = binary.function_by_prefix(prefix);
    found.ok_or_else(|| format!("{prefix} is not exported"))
}

pub(super) fn instructions(function: &Function) -> Vec<Instruction> {
    Decoder::with_ip(64, &function.code, function.address, DecoderOptions::NONE)
        .into_iter()
        .collect()
}

/// The offset of a memory operand `[register + offset]`, and the register.
pub(super) fn place(instruction: &Instruction) -> Option<(Machine, u32)> {
    let plain = instruction.memory_index() == Machine::None
        && !matches!(instruction.memory_base(), Machine::None | Machine::RIP);
    let offset = u32::try_from(instruction.memory_displacement64()).ok()?;
    (plain && offset < 4096).then_some((instruction.memory_base(), offset))
}

pub(super) fn calls(instruction: &Instruction, target: u64) -> bool {
    instruction.code() == Code::Call_rel32_64 && instruction.near_branch_target() == target
}
