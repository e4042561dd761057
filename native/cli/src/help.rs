//! The examples at the end of the help of every verb, `zstn man` and `zstn completions`.

use std::path::PathBuf;

use clap::{Args, Command};
use clap_complete::Shell;
use clap_mangen::Man;
use zstn::internals::Output;
use zstn::{Error, Result};

use super::command;
use super::terminal::Stdout;

/// A verb and its examples, each with a comment that describes it.
type Examples = (&'static str, &'static [(&'static str, &'static str)]);

const ALL: &[Examples] = &[
    (
        "pack",
        &[
            ("zstn pack model.safetensors", "makes model.zstn"),
            ("zstn pack *.safetensors -o packed/", "several files"),
            (
                "zstn pack llama/",
                "a checkpoint with all its files: llama-zstn/",
            ),
            (
                "zstn pack tuned.safetensors --base model.zstn",
                "only what differs: tuned.z4dm",
            ),
        ],
    ),
    (
        "unpack",
        &[
            ("zstn unpack model.zstn", "makes model.safetensors"),
            ("zstn unpack model.zstn -c | sha256sum", ""),
            ("zstn unpack tuned.z4dm --base model.zstn", ""),
            (
                "zstn unpack llama-zstn/ -o restored/",
                "every file as it was",
            ),
        ],
    ),
    (
        "convert",
        &[
            ("zstn convert model.zstn model.zt", "zTensor"),
            (
                "zstn convert model.zstn model.safetensors.index.json --shard-size 5G",
                "several files",
            ),
            ("zstn convert model.zt - --to zstn > model.zstn", ""),
        ],
    ),
    (
        "ls",
        &[
            ("zstn ls hf://owner/name/model.zstn", ""),
            ("zstn ls model.zstn --name 'layers.3.*' --sort ratio", ""),
            (
                "zstn ls model.zstn --tree --depth 2",
                "sums for each part of the model",
            ),
            (
                "zstn ls model.zstn --stats",
                "smallest, largest, mean, zeros …",
            ),
        ],
    ),
    (
        "info",
        &[
            ("zstn info model.zstn", ""),
            (
                "zstn info tuned.z4dm --base model.zstn",
                "what the chain costs",
            ),
            ("zstn info *.zstn --json", "a line of JSON for each"),
        ],
    ),
    (
        "get",
        &[
            ("zstn get model.zstn wte.weight -o wte.npy", ""),
            (
                "zstn get model.zstn wte.weight --rows 0:10",
                "the first ten rows",
            ),
            (
                "zstn get model.zstn wte.weight --rows -5: > rows.bin",
                "the last five",
            ),
            (
                "zstn get model.zstn experts --select 7,:,0:64 -o part.npy",
                "columns of one expert",
            ),
            (
                "zstn get https://example.org/model.zstn 'layers.3.*' -o layer3.safetensors",
                "",
            ),
        ],
    ),
    (
        "verify",
        &[
            ("zstn verify model.zstn", "all checksums"),
            (
                "zstn verify model.zstn --against model.safetensors",
                "and every byte of the original",
            ),
        ],
    ),
    (
        "diff",
        &[
            (
                "zstn diff base.zstn tuned.safetensors",
                "what changed, and by how much",
            ),
            ("zstn diff base.zstn tuned.z4dm --no-figures", "only names"),
        ],
    ),
    (
        "sketch",
        &[
            ("zstn sketch model.safetensors", "makes model.sketch"),
            (
                "zstn pack tuned.safetensors --base auto --family models/",
                "chooses the base by the sketches of a folder",
            ),
        ],
    ),
    (
        "compress",
        &[
            (
                "zstn compress weights.bin --dtype bf16",
                "makes weights.bin.z4ai",
            ),
            (
                "zstn compress step2.bin --base step1.bin",
                "only what differs: step2.bin.z4dl",
            ),
        ],
    ),
    (
        "decompress",
        &[
            ("zstn decompress weights.bin.z4ai", ""),
            ("zstn decompress step2.bin.z4dl --base step1.bin", ""),
        ],
    ),
    (
        "view",
        &[
            ("zstn view model.zstn", ""),
            ("zstn view base.zstn tuned.zstn", "what a fine-tune changed"),
            (
                "zstn view hf://owner/name/model.zstn --no-open",
                "prints the link",
            ),
        ],
    ),
    (
        "serve",
        &[
            ("zstn serve models/", ""),
            (
                "zstn serve models/ --host 0.0.0.0 --cors https://viewer.example",
                "for other machines, and a page on another server",
            ),
        ],
    ),
    (
        "gateway",
        &[
            (
                "zstn gateway --port 8090",
                "then HF_ENDPOINT=http://127.0.0.1:8090",
            ),
            ("zstn gateway --upstream s3://bucket/models", ""),
        ],
    ),
    (
        "lfs",
        &[
            ("zstn lfs install --store /mnt/models/lfs", "for this clone"),
            (
                "zstn lfs install --global",
                "for servers that store packed objects",
            ),
            ("zstn lfs status", ""),
        ],
    ),
    (
        "worker",
        &[
            (
                "zstn worker --listen 127.0.0.1:8080 --state queue/",
                "packs what is pushed",
            ),
            (
                "zstn worker --plan plan.jsonl --to packed/ --shard 3/16",
                "packs what a plan lists",
            ),
        ],
    ),
    (
        "bench",
        &[
            ("zstn bench model.safetensors --threads 1 --runs 9", ""),
            (
                "zstn bench --files --work /mnt/disk",
                "where packing, unpacking and verifying files spend their time",
            ),
        ],
    ),
    (
        "completions",
        &[
            (
                "zstn completions bash > ~/.local/share/bash-completion/completions/zstn",
                "",
            ),
            (
                "zstn completions zsh > ~/.zfunc/_zstn",
                "with fpath+=~/.zfunc in ~/.zshrc",
            ),
            (
                "zstn completions fish > ~/.config/fish/completions/zstn.fish",
                "",
            ),
        ],
    ),
    (
        "man",
        &[
            ("zstn man | man -l -", ""),
            ("zstn man -o ~/.local/share/man/man1", "then: man zstn-pack"),
        ],
    ),
];

/// Adds the examples of each verb to the end of its help.
pub fn add_to(mut command: Command) -> Command {
    for (verb, examples) in ALL {
        if command.find_subcommand(verb).is_none() {
            // This build does not include the verb.
            continue;
        }
        command = command.mut_subcommand(verb, |verb| {
            let help = match verb.get_after_help() {
                Some(more) => format!("{}\n\n{more}", text(examples)),
                None => text(examples),
            };
            verb.after_help(help)
        });
    }
    command
}

fn text(examples: &[(&str, &str)]) -> String {
    let lines = examples.iter().map(|(line, comment)| match *comment {
        "" => format!("\n  {line}"),
        comment => format!("\n  {line}   # {comment}"),
    });
    format!("Examples:{}", lines.collect::<String>())
}

/// The options of `zstn man`.
#[derive(Args)]
pub struct ManOptions {
    /// Write a page for zstn and one for every verb to this folder, such as
    /// /usr/local/share/man/man1
    #[arg(short, long, value_name = "FOLDER")]
    output: Option<PathBuf>,
}

pub fn man(options: &ManOptions) -> Result<()> {
    let mut all = command();
    all.build();
    let Some(folder) = &options.output else {
        let mut out = Stdout::new();
        out.bytes(&page(&all)?)?;
        return out.finish();
    };
    std::fs::create_dir_all(folder)
        .map_err(|error| Error::io(format!("make the folder {}", folder.display()), error))?;
    write_pages(&all, folder)
}

/// Writes the pages of a command and of its subcommands. Existing pages are
/// overwritten, as by any installer.
fn write_pages(command: &Command, folder: &std::path::Path) -> Result<()> {
    let name = command.get_display_name().unwrap_or(command.get_name());
    let mut output = Output::create(&folder.join(format!("{name}.1")))?;
    output.write(&page(command)?)?;
    output.finish()?;
    let verbs = command.get_subcommands();
    verbs
        .filter(|verb| verb.get_name() != "help")
        .try_for_each(|verb| write_pages(verb, folder))
}

fn page(command: &Command) -> Result<Vec<u8>> {
    let mut page = Vec::new();
    Man::new(command.clone())
        .render(&mut page)
        .map_err(|error| Error::io("write the manual page", error))?;
    Ok(page)
}

/// The options of `zstn completions`.
#[derive(Args)]
pub struct CompletionsOptions {
    /// Shell to write the script for
    #[arg(value_enum)]
    shell: Shell,
}

pub fn completions(options: &CompletionsOptions) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(options.shell, &mut command(), "zstn", &mut script);
    let mut out = Stdout::new();
    out.bytes(&script)?;
    out.finish()
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::super::{Cli, command};
    use super::*;

    /// Splits an example into arguments: removes quotes as a shell does, and drops
    /// pipes and redirections.
    fn arguments(line: &str) -> Vec<String> {
        let words = line.split(' ');
        words
            .take_while(|word| !matches!(*word, "|" | ">"))
            .map(|word| word.trim_matches('\'').to_owned())
            .collect()
    }

    #[test]
    fn every_verb_has_examples_that_it_understands() {
        let verbs: Vec<String> = Cli::command()
            .get_subcommands()
            .map(|verb| verb.get_name().to_owned())
            .collect();
        assert!(verbs.len() > 15, "{verbs:?}");
        for verb in verbs {
            let own = ALL.iter().filter(|(name, _)| *name == verb);
            let lines: Vec<&str> = own
                .flat_map(|(_, examples)| examples.iter().map(|(line, _)| *line))
                .collect();
            let is_own = |line: &&str| line.starts_with(&format!("zstn {verb}"));
            assert!(lines.iter().any(is_own), "{verb} has no example");
            for line in lines {
                let parsed = command().try_get_matches_from(arguments(line));
                assert!(parsed.is_ok(), "{line}: {}", parsed.unwrap_err());
            }
        }
    }

    #[test]
    fn help_ends_with_them_and_with_what_was_there() {
        let mut command = command();
        let lfs = command.find_subcommand_mut("lfs").unwrap();
        let help = lfs.render_help().to_string();
        assert!(help.contains("Examples:\n  zstn lfs install"), "{help}");
        assert!(help.contains("docs/git-lfs.md explains when"), "{help}");
    }
}
