#include "completion.h"

#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <sstream>

#include "command_line.h"

namespace muster::plugin {
namespace {

// Cobra's: offer nothing else, or the names of files.
constexpr int kNoFiles = 4;
constexpr int kFiles = 0;

// What is left of the cursor, as far as it is understood.
struct Typed {
  const CLI::App* command = nullptr;   // nullptr: none yet
  const CLI::Option* waits = nullptr;  // an option whose value comes next
  std::size_t positionals = 0;         // of the command
  bool is_lost = false;                // behind "--", or behind a command that there is not
  Options options;
};

const CLI::Option* find_option(const CLI::App* app, const std::string& word) {
  if (app == nullptr) return nullptr;
  for (const CLI::Option* option : app->get_options({})) {
    for (const auto& name : option->get_lnames()) {
      if (word == "--" + name) return option;
    }
    for (const auto& name : option->get_snames()) {
      if (word == "-" + name) return option;
    }
  }
  return nullptr;
}

const CLI::App* find_command(const CLI::App& app, const std::string& name) {
  const auto commands = app.get_subcommands({});
  const auto found = std::ranges::find(commands, name, [](const CLI::App* one) { return one->get_name(); });
  return found == commands.end() ? nullptr : *found;
}

bool takes_value(const CLI::Option& option) {
  return option.get_items_expected_max() > 0;
}

void note_value(Options& options, const std::string& option, const std::string& value) {
  if (option == "namespace") options.ns = value;
  if (option == "context") options.context = value;
  if (option == "kubeconfig") options.kubeconfig = value;
}
std::string long_name(const CLI::Option& option) {
  return option.get_lnames().empty() ? "" : option.get_lnames().front();
}

Typed read_typed(const CLI::App& app, const std::vector<std::string>& words) {
  Typed typed;
  for (std::size_t i = 0; i + 1 < words.size(); ++i) {
    const std::string& word = words[i];
    if (typed.waits != nullptr) {
      note_value(typed.options, long_name(*typed.waits), word);
      typed.waits = nullptr;
    } else if (word == "--") {
      typed.is_lost = true;
      return typed;
    } else if (word.starts_with("-")) {
      const std::size_t equals = word.find('=');
      const CLI::Option* option = find_option(typed.command, word.substr(0, equals));
      if (option == nullptr) option = find_option(&app, word.substr(0, equals));
      if (option == nullptr || !takes_value(*option)) continue;
      if (equals == std::string::npos) {
        typed.waits = option;
      } else {
        note_value(typed.options, long_name(*option), word.substr(equals + 1));
      }
    } else if (typed.command == nullptr) {
      typed.command = find_command(app, word);
      typed.is_lost = typed.command == nullptr;
      if (typed.is_lost) return typed;
    } else if (const CLI::App* inner = find_command(*typed.command, word)) {
      typed.command = inner;
    } else {
      ++typed.positionals;
    }
  }
  return typed;
}

// Of "TEXT:{json,table}" both words: so CLI11 tells what it checks for.
std::vector<std::string> allowed_values(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const std::size_t open = type.find('{'), close = type.find('}');
  std::vector<std::string> values;
  if (open == std::string::npos || close == std::string::npos) return values;
  std::istringstream list(type.substr(open + 1, close - open - 1));
  for (std::string value; std::getline(list, value, ',');) values.push_back(value);
  return values;
}

void add_options(const CLI::App& app, Candidates& candidates) {
  for (const CLI::Option* option : app.get_options({})) {
    if (const auto name = long_name(*option); !name.empty())
      candidates.words.emplace_back("--" + name, option->get_description());
  }
}

void add_values(const CLI::Option& option, Candidates& candidates) {
  for (const auto& value : allowed_values(option)) candidates.words.emplace_back(value, "");
  const std::string name = long_name(option);
  candidates.files = name == "filename" || name == "kubeconfig";
}

void keep_matching(Candidates& candidates, const std::string& begun) {
  std::erase_if(candidates.words, [&](const auto& word) { return !word.first.starts_with(begun); });
}

const CLI::Option* positional(const CLI::App& command, std::size_t at) {
  std::size_t seen = 0;
  for (const CLI::Option* option : command.get_options({})) {
    if (option->get_positional() && seen++ == at) return option;
  }
  return nullptr;
}

template <class Kind>
void add_names(Reader& reader, const std::string& ns, const std::string& kind,
               std::vector<std::string>& names) {
  const auto objects = reader.list_json(resource_of<Kind>(), ns);
  if (!objects) return;
  for (const auto& object : *objects)
    names.push_back(kind + object.value(crds::Json::json_pointer("/metadata/name"), ""));
}

std::vector<std::string> names_in_cluster(const Options& options) {
  std::vector<std::string> names;
  with_reader(options, [&](Reader& reader, const std::string& ns) {
    add_names<crds::TrainingJob>(reader, ns, "", names);
    add_names<crds::InferenceService>(reader, ns, "isvc/", names);
    return 0;
  });
  return names;
}

constexpr std::string_view kBash = R"(# bash completion of kubectl-muster
_kubectl_muster() {
  local lines word
  COMPREPLY=()
  mapfile -t lines < <(kubectl-muster __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
  for word in "${lines[@]}"; do
    [[ $word == :* ]] || COMPREPLY+=("${word%%$'\t'*}")
  done
  [[ ${lines[-1]} != :0 ]] || compopt -o default
}
complete -F _kubectl_muster kubectl-muster
)";
constexpr std::string_view kZsh = R"(#compdef kubectl-muster
_kubectl_muster() {
  local -a lines candidates
  local line
  lines=("${(@f)$(kubectl-muster __complete "${(@)words[2,CURRENT]}" 2>/dev/null)}")
  for line in $lines; do
    [[ $line == :* ]] || candidates+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}")
  done
  _describe kubectl-muster candidates
  [[ $lines[-1] != :0 ]] || _files
}
compdef _kubectl_muster kubectl-muster
)";
constexpr std::string_view kFish = R"(# fish completion of kubectl-muster
function __kubectl_muster
  set -l words (commandline -opc) (commandline -ct)
  kubectl-muster __complete $words[2..-1] 2>/dev/null | string match -v -r '^:'
end
complete -c kubectl-muster -f -a '(__kubectl_muster)'
complete -c kubectl-muster -s f -l filename -r -F
)";

}  // namespace

Candidates complete(const CLI::App& app, const std::vector<std::string>& words,
                    const std::function<std::vector<std::string>(const Options&)>& names_of) {
  Candidates candidates;
  if (words.empty()) return candidates;
  const std::string& begun = words.back();
  const Typed typed = read_typed(app, words);
  if (typed.is_lost) return candidates;
  if (typed.waits != nullptr) {
    add_values(*typed.waits, candidates);
  } else if (begun.starts_with("-")) {
    if (typed.command != nullptr) add_options(*typed.command, candidates);
    add_options(app, candidates);
  } else if (typed.command == nullptr) {
    for (const CLI::App* command : app.get_subcommands({}))
      candidates.words.emplace_back(command->get_name(), command->get_description());
  } else if (const auto inner = typed.command->get_subcommands({}); !inner.empty()) {
    for (const CLI::App* command : inner)
      candidates.words.emplace_back(command->get_name(), command->get_description());
  } else if (const auto* wanted = positional(*typed.command, typed.positionals); wanted != nullptr) {
    if (wanted->get_name() == kJobArgument) {
      for (auto& name : names_of(typed.options)) candidates.words.emplace_back(std::move(name), "");
    } else {
      add_values(*wanted, candidates);
    }
  }
  keep_matching(candidates, begun);
  return candidates;
}

int run_complete(const CLI::App& app, const std::vector<std::string>& words) {
  const Candidates candidates = complete(app, words, names_in_cluster);
  for (const auto& [word, description] : candidates.words)
    std::cout << word << (description.empty() ? "" : "\t" + description) << '\n';
  std::cout << ':' << (candidates.files ? kFiles : kNoFiles) << '\n';
  return 0;
}

int run_completion(const std::string& shell) {
  std::cout << (shell == "bash" ? kBash : shell == "zsh" ? kZsh : kFish);
  return 0;
}

}  // namespace muster::plugin
