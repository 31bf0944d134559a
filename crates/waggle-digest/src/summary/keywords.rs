//! Which words matter to a summary?
//!
//! One comparison of a number for words of up to 16 letters; everything else is a name.
//! Neighbour: `summary` walks. Invariant: a word has the same meaning in any case.

/// What a word may mean, by the place where it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Word {
    /// Anything else.
    Name,
    Select,
    Insert,
    Replace,
    Update,
    Delete,
    With,
    Load,
    Create,
    Alter,
    Drop,
    /// Other statements about objects: `TRUNCATE`, `RENAME`, `OPTIMIZE`, ...
    Define,
    Analyze,
    Truncate,
    For,
    Explain,
    Show,
    Call,
    Use,
    Handler,
    /// Operations of one word.
    Single,
    /// Operations of two words.
    Pair,
    Values,
    Set,
    From,
    Join,
    Into,
    On,
    In,
    Using,
    /// Ends a list of tables.
    Clause,
    Lateral,
    Dual,
    /// Stands between an operation and its target.
    Modifier,
    Format,
    If,
    Not,
    Exists,
    Table,
    Index,
    View,
    /// An object with a name and perhaps a body of its own.
    Routine,
    /// Accounts and their kin: their names are nobody's business.
    Account,
    /// A second word of an operation, such as `TRANSACTION`.
    Second,
}

impl Word {
    /// It begins a statement that may also stand behind `EXPLAIN` or `WITH`.
    pub(super) fn is_main(self) -> bool {
        matches!(
            self,
            Self::Select | Self::Insert | Self::Replace | Self::Update | Self::Delete
        )
    }
}

/// Up to 16 letters of either case as one number.
#[inline(always)]
const fn packed(word: &[u8]) -> u128 {
    let mut number = 0;
    let mut at = 0;
    while at < word.len() {
        number = number << 8 | (word[at] | 0x20) as u128;
        at += 1;
    }
    number
}

macro_rules! words {
    ($number:expr, $($meaning:ident: $($text:literal)+;)+) => {{
        // A guard, since a pattern cannot be computed.
        match $number {
            $($(number if number == const { packed($text) } => Word::$meaning,)+)+
            _ => Word::Name,
        }
    }};
}

/// What `text`, a word of the statement, may mean.
#[inline]
pub(super) fn word(text: &[u8]) -> Word {
    // By length first: most names end here after two or three comparisons.
    match text.len() {
        2 => words!(packed(text), On: b"on"; In: b"in"; If: b"if"; Single: b"do"; Pair: b"xa";),
        3 => {
            words!(packed(text), Set: b"set"; Use: b"use"; Not: b"not"; Single: b"get"; For: b"for";
            Modifier: b"all"; Second: b"end";)
        }
        4 => words!(packed(text), From: b"from"; Join: b"join"; Into: b"into"; With: b"with";
            Load: b"load"; Drop: b"drop"; Show: b"show"; Call: b"call"; Pair: b"lock" b"stop";
            Single: b"kill" b"help"; Explain: b"desc"; Dual: b"dual"; View: b"view";
            Account: b"user" b"role"; Second: b"data" b"logs" b"host"; Clause: b"like";),
        5 => {
            words!(packed(text), Clause: b"where" b"group" b"order" b"limit" b"union";
            Table: b"table";
            Index: b"index"; Routine: b"event"; Alter: b"alter"; Single: b"begin" b"grant";
            Define: b"check"; Pair: b"start" b"flush" b"reset" b"purge" b"cache"; Using: b"using";
            Modifier: b"quick" b"local"; Second: b"slave" b"hosts"; Values: b"value";)
        }
        6 => words!(packed(text), Select: b"select"; Insert: b"insert"; Update: b"update";
            Delete: b"delete"; Values: b"values"; Create: b"create"; Clause: b"having" b"window"
            b"except"; Single: b"commit" b"revoke" b"signal" b"import"; Define: b"rename" b"repair";
            Modifier: b"ignore" b"online"; Table: b"tables"; Routine: b"schema"; Account: b"server";
            Format: b"format"; Exists: b"exists"; Pair: b"change" b"unlock"; Second: b"master"
            b"status" b"binary";),
        7 => words!(packed(text), Replace: b"replace"; Explain: b"explain"; Analyze: b"analyze";
            Handler: b"handler"; Lateral: b"lateral"; Single: b"prepare" b"execute" b"release"
            b"install" b"restart"; Routine: b"trigger"; Modifier: b"delayed"; Second: b"replica"
            b"recover";),
        8 => {
            words!(packed(text), Truncate: b"truncate"; Define: b"optimize" b"checksum";
            Single: b"rollback"
            b"shutdown"; Explain: b"describe"; Routine: b"database" b"function" b"sequence"
            b"package"; Modifier: b"extended" b"fulltext"; Second: b"instance";)
        }
        9 => words!(packed(text), Single: b"savepoint" b"uninstall"; Routine: b"procedure";
            Clause: b"intersect"; Second: b"processes" b"variables";),
        10 => words!(packed(text), Single: b"deallocate" b"resignal"; Modifier: b"partitions";
            Routine: b"tablespace"; Second: b"privileges";),
        11 => words!(packed(text), Second: b"transaction" b"replication";),
        12 => words!(packed(text), Modifier: b"low_priority";),
        13 => words!(packed(text), Join: b"straight_join"; Modifier: b"high_priority";),
        17 if text.eq_ignore_ascii_case(b"group_replication") => Word::Second,
        _ => Word::Name,
    }
}

#[cfg(test)]
mod tests {
    use super::{Word, word};

    #[test]
    fn words_in_any_case_and_nothing_else() {
        assert_eq!(word(b"SeLeCt"), Word::Select);
        assert_eq!(word(b"straight_JOIN"), Word::Join);
        assert_eq!(word(b"straight\x1fjoin"), Word::Name);
        assert_eq!(word(b"selects"), Word::Name);
        assert_eq!(word(b"s"), Word::Name);
    }
}
