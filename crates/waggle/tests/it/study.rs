//! `waggle lab study`: each part of a published study, tiny, on a real server.

mod dbdoctor;
mod vividcortex;
