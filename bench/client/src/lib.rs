//! The parts that the bench programs share: a login, statements, and a session without a socket.
//!
//! `null-server` answers from memory, `bare-loop` is the floor under every client, `bench-client`
//! pairs clients and files the result. Invariant: nothing here is part of waggle, and nothing here
//! is measured but the calls of the socket; what a program adds to them is kept to a few loads
//! and stores.

pub mod login;
pub mod session;
pub mod statements;
