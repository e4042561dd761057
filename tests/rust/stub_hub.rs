//! Runs the model hub for tests in other languages. The first line of its output is its
//! URL. With `--until-eof`, it ends when its standard input does.

use std::io::{Write, stdin, stdout};
use std::process::ExitCode;

use zstn_tests::stub_hub::{Options, Role, StubHub, Webhook};

const USAGE: &str = "\
Usage: stub-hub [OPTIONS]

  --listen ADDRESS      where to listen (default: 127.0.0.1:0, any free port)
  --token T             a token that may do everything; may be given twice
  --read-token T        a token that may read all but gated repositories
  --folder DIR          where large files are kept (default: a temporary folder)
  --xet DIR             the folder of a local Xet store, for clients that have Xet
  --page N              entries on one page of a listing (default: 1000)
  --parts BYTES         longer files are uploaded in parts of this length
  --webhook URL         who is notified of commits
  --webhook-secret S    what is sent as X-Webhook-Secret
  --until-eof           ends with its standard input

Without a token, everything is allowed to everyone.
For tests: GET and DELETE /_stub/log, POST and DELETE /_stub/faults,
POST /_stub/commits, DELETE /_stub/repositories.";

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("stub-hub: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn std::error::Error>> {
    let mut options = Options::default();
    let mut until_eof = false;
    let mut secret = None;
    let mut urls = Vec::new();
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("{name} needs a value"));
        match &*name {
            "--listen" => options.listen = value()?.parse()?,
            "--token" => options.tokens.push((value()?, Role::Write)),
            "--read-token" => options.tokens.push((value()?, Role::Read)),
            "--folder" => options.folder = Some(value()?.into()),
            "--xet" => options.xet = Some(value()?.into()),
            "--page" => options.page_len = value()?.parse()?,
            "--parts" => options.part_bytes = Some(value()?.parse()?),
            "--webhook" => urls.push(value()?),
            "--webhook-secret" => secret = Some(value()?),
            "--until-eof" => until_eof = true,
            "--help" | "-h" => {
                writeln!(stdout(), "{USAGE}")?;
                return Ok(());
            }
            _ => return Err(format!("no such option: {name}\n{USAGE}").into()),
        }
    }
    options.webhooks = urls
        .into_iter()
        .map(|url| Webhook {
            url,
            secret: secret.clone(),
        })
        .collect();
    let hub = StubHub::start(options)?;
    writeln!(stdout(), "{}", hub.url())?;
    stdout().flush()?;
    if until_eof {
        std::io::copy(&mut stdin(), &mut std::io::sink())?;
        return Ok(());
    }
    loop {
        std::thread::park();
    }
}
