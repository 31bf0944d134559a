//! The shipped workloads against real servers: what they leave there is what they say they did.

mod bed;
mod json;
mod linkbench;
mod oltp;
mod oltp_prepare;
mod tpcc;
