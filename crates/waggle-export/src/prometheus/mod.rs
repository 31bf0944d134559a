//! Prometheus: what does a scrape of this agent say?
//!
//! A [`View`] becomes a page (`page`: which servers, which digests), the page becomes series
//! (`metrics`: names, labels, units), and these become text (`exposition`), which `http`
//! serves. Neighbour: remote write sends the same series.
//!
//! Invariant: the number of series is bounded by settings, not by what the servers do.

mod agent;
mod digests;
mod exposition;
mod host;
mod http;
mod instance;
mod listen;
mod metrics;
mod page;
mod row;
mod selection;
mod token;

pub use exposition::{Kind, Series, Text, Visit};
pub use http::{Prometheus, Settings, StartError};
pub use listen::{DEFAULT_PORT, Listen, NotAnAddress};
pub use page::Bounds;
pub use token::Token;

use waggle_agent::view::View;

/// Makes series of views, and remembers which have been shown.
#[derive(Debug)]
pub struct Exposition {
    pages: page::Pages,
}

impl Exposition {
    /// Nothing was shown yet.
    pub fn new(bounds: Bounds) -> Self {
        Self {
            pages: page::Pages::new(bounds),
        }
    }

    /// Tells `to` every series of `view`, which is not older than those before.
    pub fn visit(&mut self, view: &View, to: &mut dyn Visit) {
        let page = self.pages.page(view);
        metrics::visit(&page, to);
    }

    /// The text format of `view`, which is not older than those before.
    pub fn text(&mut self, view: &View) -> String {
        let mut text = Text::with_capacity(64 << 10);
        self.visit(view, &mut text);
        text.finish()
    }
}
