//! The script in pages.

use crate::pages::Way;

/// The script of a site.
#[derive(Debug)]
pub(super) struct Script {
    path: String,
    code: String,
}

impl Script {
    /// One that reports to this path, whose characters need no escape anywhere.
    pub(super) fn new(path: &str) -> Self {
        Self {
            path: path.to_owned(),
            code: CODE
                .lines()
                .map(str::trim)
                .collect::<String>()
                .replace("PATH", path),
        }
    }

    /// The script as a file.
    pub(super) fn code(&self) -> &str {
        &self.code
    }

    /// Its element in the page with this id, as policies allow.
    pub(super) fn element(&self, way: &Way, id: u64) -> String {
        let (Way::Inline(nonce) | Way::File(nonce)) = way;
        let nonce = nonce.as_ref();
        let nonce = nonce.map_or_else(String::new, |nonce| format!(" nonce=\"{nonce}\""));
        match way {
            Way::Inline(_) => format!("<script{nonce} id=hk{id:016x}>{}</script>", self.code),
            Way::File(_) => format!(
                "<script{nonce} id=hk{id:016x} src={}.js async></script>",
                self.path
            ),
        }
    }
}

/// It only sets listeners when it is parsed, and takes its element out of the page again. It sends when
/// the page is hidden or left, or a minute after it was loaded, whichever is first.
///
/// Browsers that lack something, or know the page from their cache, send nothing. The fields of a report are
/// `i` id, `h` hidden at the start, `t` type of the navigation, `n` its times, `l` largest contentful paint.
/// In `m` each protocol has four figures for the responses of the page's origin. These are their number, bytes
/// with 300 for each header, the time in which one was under way, and the end of the last.
///
/// It stays with what browsers of 2016 parse, in which it otherwise would be an error in the console.
const CODE: &str = r#"
(()=>{
let d=document,c=d.currentScript,i=c.id,A=addEventListener,h=+d.hidden,s=0,l=0,
f=()=>{
let a=performance.getEntries(),n=a.find(x=>x.type),N=navigator,m={},e,b,u="PATH";
if(s++||!n||!(n.transferSize>n.encodedBodySize))return;
e=n.loadEventStart||1/0;
a.map(x=>{
let k=x.nextHopProtocol,z=x.responseEnd,q;
if(x.transferSize&&z<=e&&!x.name.indexOf(location.origin+"/")){
q=m[k]=m[k]||[0,0,0,0];
q[0]++;q[1]+=x.transferSize;
if(z>q[3])q[2]+=z-Math.max(x.requestStart,q[3]),q[3]=z
}
});
b=JSON.stringify({i,h,l,m,t:n.type,n:[n.connectEnd,n.requestStart,n.responseStart,n.responseEnd,n.domInteractive,n.loadEventEnd]});
N.sendBeacon&&N.sendBeacon(u,b)||fetch(u,{method:"POST",body:b,keepalive:!0})
};
c.remove();
A("pagehide",f);
A("visibilitychange",()=>d.hidden&&f());
A("load",()=>{
try{new PerformanceObserver(x=>x.getEntries().map(y=>l=y.startTime)).observe({type:"largest-contentful-paint",buffered:!0})}catch(x){}
setTimeout(f,6e4)
})
})()
"#;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_small_and_whole() {
        let path = format!("/{}", "p".repeat(31));
        let script = Script::new(&path);
        let nonce = "R2h0bG1sLm5vbmNlLjEyMw==".to_owned();
        let inline = script.element(&Way::Inline(Some(nonce.clone())), u64::MAX);
        assert!(inline.len() <= 1024, "{}: {inline}", inline.len());
        let file = script.element(&Way::File(Some(nonce)), 1);
        assert_eq!(
            file,
            format!(
                "<script nonce=\"R2h0bG1sLm5vbmNlLjEyMw==\" id=hk0000000000000001 \
                 src={path}.js async></script>"
            )
        );
        let usual = Script::new("/.well-known/hikyaku/page");
        let element = usual.element(&Way::Inline(None), 1);
        assert!(
            element.contains("u=\"/.well-known/hikyaku/page\""),
            "{element}"
        );
        for forbidden in ["</script", "<!--", "\n", "PATH"] {
            let code = usual.code();
            assert!(!code.contains(forbidden), "{forbidden} in {code}");
        }
    }
}
