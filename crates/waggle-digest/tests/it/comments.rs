//! sqlcommenter's comments, where they count and where they do not.

use proptest::prelude::*;
use waggle_digest::{COMMENT_BYTES_MAX, COMMENT_PAIRS_MAX, TraceParent, comments};

fn pairs(sql: &str) -> Vec<(String, String)> {
    comments(sql.as_bytes())
}

fn shown(sql: &str) -> String {
    let pairs = pairs(sql);
    let each: Vec<String> = pairs.iter().map(|(k, v)| format!("{k}={v}")).collect();
    each.join("|")
}

const TRACE: &str = "00-5bd66ef5095369c7b0d1f8f4bd33716a-c532cb4098ac3dd2-01";

#[test]
fn pairs_are_read_where_they_count() {
    for (sql, expected) in [
        ("SELECT 1", ""),
        // The specification's own example.
        (
            "SELECT * FROM FOO /*action='%2Fparam*d',controller='index,'framework='spring'*/",
            "",
        ),
        (
            "SELECT * FROM FOO /*action='%2Fparam*d',controller='index',framework='spring',\
             tracestate='congo%3Dt61rcWkgMzE%2Crojo%3D00f067aa0ba902b7'*/",
            "action=/param*d|controller=index|framework=spring|\
             tracestate=congo=t61rcWkgMzE,rojo=00f067aa0ba902b7",
        ),
        (
            "/*a='1'*/ select 1 /* b = '2' , c='3' */ ; \n",
            "a=1|b=2|c=3",
        ),
        ("/* plain */ /*a='1'*/ -- x\nselect 1 # end", "a=1"),
        ("select 1 /*k='it\\'s'*/", "k=it's"),
        ("select 1 /*k%20y='a+b%zz%4'*/", "k y=a+b%zz%4"),
        ("select 1 /*n='%C3%A4%FF%00'*/", "n=ä\u{fffd}\0"),
        ("select 1 /*a=''*/", "a="),
        // In the middle, in a literal, in a name, in hints and code, open, not in the form.
        ("select /*a='1'*/ 1", ""),
        ("select '/*a=\\'1\\'*/'", ""),
        ("select '/*a=\"1\"*/' from `/*b='2'*/`", ""),
        ("select 1 /*+ a='1' */", ""),
        ("select 1 /*! a='1' */", ""),
        ("select 1 /*M! a='1' */", ""),
        ("select 1 /*a='1'", ""),
        ("select 1 /*a='1*/", ""),
        ("insert into t values ('/*a=1*/ /*b='", ""),
        ("select 1 /* app:web, id=5 */", ""),
        ("select 1 /*a='1' and b='2'*/", ""),
        ("select 1 /*a='1',*/", ""),
        ("select 1 -- /*a='1'*/", ""),
        ("select 1; select 2 /*a='1'*/", "a=1"),
        ("select 1 /*a='1'*/; select 2", ""),
        ("/**/", ""),
        ("/*/", ""),
    ] {
        assert_eq!(shown(sql), expected, "{sql}");
    }
}

#[test]
fn what_is_returned_is_bounded() {
    let many: Vec<String> = (0..1000).map(|n| format!("k{n}='v'")).collect();
    let comment = many[..200].join(",");
    assert_eq!(
        pairs(&format!("select 1 /*{comment}*/")).len(),
        COMMENT_PAIRS_MAX
    );
    assert_eq!(
        pairs(&format!("/*{comment}*/ select 1 /*{comment}*/")).len(),
        COMMENT_PAIRS_MAX
    );
    let long = "x".repeat(COMMENT_BYTES_MAX);
    assert_eq!(pairs(&format!("select 1 /*a='{long}'*/")), []);
    let repeated = "/*a='1'*/".repeat(10_000);
    assert_eq!(pairs(&format!("{repeated}select 1{repeated}")).len(), 16);
}

#[test]
fn traceparents() {
    let found = TraceParent::among(&pairs(&format!("select 1 /*traceparent='{TRACE}'*/")));
    let found = found.expect("a trace");
    assert_eq!(found.trace_id[..3], [0x5b, 0xd6, 0x6e]);
    assert_eq!(
        found.span_id,
        [0xc5, 0x32, 0xcb, 0x40, 0x98, 0xac, 0x3d, 0xd2]
    );
    assert_eq!(found.flags, 1);
    let later = format!("cc{}-what-comes", &TRACE[2..]);
    assert_eq!(TraceParent::parse(&later), Some(found));
    for wrong in [
        "",
        &TRACE[..54],
        &format!("{TRACE}-more"),
        &format!("{TRACE}0"),
        &TRACE.to_uppercase(),
        &format!("ff{}", &TRACE[2..]),
        &TRACE.replace('-', "_"),
        &TRACE.replacen("5bd66ef5095369c7b0d1f8f4bd33716a", &"0".repeat(32), 1),
        &TRACE.replacen("c532cb4098ac3dd2", &"0".repeat(16), 1),
        &"ä".repeat(28)[..54],
    ] {
        assert_eq!(TraceParent::parse(wrong), None, "{wrong}");
    }
}

proptest! {
    #[test]
    fn what_was_encoded_is_decoded(value in "\\PC{0,40}", key in "[a-z_]{1,10}") {
        let mut encoded = String::new();
        for byte in value.bytes() {
            if byte.is_ascii_alphanumeric() {
                encoded.push(char::from(byte));
            } else {
                encoded.push_str(&format!("%{byte:02X}"));
            }
        }
        let sql = format!("select 'x' /*{key}='{encoded}',b='2'*/");
        prop_assert_eq!(pairs(&sql), [(key, value), ("b".to_owned(), "2".to_owned())]);
    }

    #[test]
    fn any_bytes_are_accepted(bytes in prop::collection::vec(
        prop::sample::select(b"/*'\"`=,%a\\;-#+! \n\xff".to_vec()), 0..120,
    )) {
        prop_assert!(comments(&bytes).len() <= COMMENT_PAIRS_MAX);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let _ = TraceParent::parse(&text);
    }
}
