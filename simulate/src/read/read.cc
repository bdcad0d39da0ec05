#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "muster/crds/validate.h"
#include "muster/reconcilers/placement/placement_specs.h"
#include "muster/reconcilers/schedules/effective_spec.h"
#include "muster/simulate/input.h"
#include "read/annotations.h"
#include "read/json.h"
#include "read/objects.h"
#include "read/schemas.h"

namespace muster::simulate {
namespace {

using crds::Document;
using crds::FieldError;
using crds::Json;

class InputReader {
 public:
  void take(crds::LoadedDocuments loaded) {
    for (FieldError& e : loaded.errors) input_.errors.push_back(std::move(e));
    for (Document& d : loaded.documents) take(d);
  }
  void add_error(FieldError error) { input_.errors.push_back(std::move(error)); }

  Input finish() {
    check_edits();
    check_gpus_of_nodes();
    return std::move(input_);
  }

 private:
  void locate(std::vector<FieldError> errors, const Document& document) {
    locate(std::move(errors), document, input_.errors);
  }
  static void locate(std::vector<FieldError> found, const Document& document, std::vector<FieldError>& list) {
    for (FieldError& e : found) {
      e.location = document.location(e.field);
      list.push_back(std::move(e));
    }
  }

  void take(Document& document) {
    const Json& object = *document.object;
    const std::string version = text(find(object, "apiVersion"));
    const std::string kind = text(find(object, "kind"));
    const std::size_t before = input_.errors.size();
    if (const Json* schema = schema_of(version, kind)) {
      const bool is_own = kind == "Expectation" || kind == "Calendar";
      if (!is_own) locate(crds::validate_metadata(object), document);
      if (kind == "Expectation") check_time(document);
      locate(crds::validate_by_schema(*schema, object, crds::object_name(object)), document);
    } else if (crds::find_crd(version, kind) != nullptr) {
      locate(crds::validate(object), document);
      if (input_.errors.size() == before)
        locate(reconcilers::schedule_errors(object), document, input_.warnings);
      crds::apply_defaults(*document.object);
    } else {
      const std::string field = version.empty() ? "apiVersion" : "kind";
      input_.errors.push_back(
          {crds::object_name(object), field,
           "must be one of the kinds that simulate reads: " + std::string(kinds_that_are_read()),
           document.location(field)});
    }
    if (input_.errors.size() != before) return;
    if (kind == "Expectation") {
      take_expectation(document);
    } else if (kind == "Calendar") {
      take_calendar(document);
    } else {
      take_object(document);
    }
  }

  void check_time(const Document& document) {
    const Json* at = find(*document.object, "at");
    if (at == nullptr || !at->is_string()) return;  // the schema says so
    if (const auto time = crds::parse_duration(text(at)); !time)
      input_.errors.push_back({"Expectation", "at", time.error(), document.location("at")});
  }

  void take_calendar(const Document& document) {
    const auto begin = crds::parse_time(text(find(*document.object, "begin")));
    if (!begin) return add_error({"Calendar", "begin", begin.error(), document.location("begin")});
    if (has_calendar_)
      return add_error({"Calendar", "begin", "must be stated once", document.location("begin")});
    has_calendar_ = true;
    input_.begin = *begin;
  }

  void take_expectation(Document& document) {
    const auto at = crds::parse_duration(text(find(*document.object, "at")));
    Document source = document;
    source.object.reset();
    input_.expectations.push_back({at.value_or(Instant{0}), std::move(*document.object), std::move(source)});
  }

  void take_object(Document& document) {
    const std::size_t before = input_.errors.size();
    const Annotations notes = read_annotations(document, input_.errors);
    auto object = read_object(document, notes.behaviour, notes.fail_at, notes.recover_at, input_.errors);
    if (object == nullptr || input_.errors.size() != before) return;
    Change change;
    change.at = notes.at;
    change.key = crds::object_name(*document.object);
    change.object = std::move(object);
    change.source = document;
    change.source.object.reset();
    by_key_[change.key].push_back(input_.changes.size());
    if (notes.delete_at) {
      Change gone = change;
      gone.at = *notes.delete_at;
      gone.remove = true;
      input_.changes.push_back(std::move(change));
      input_.changes.push_back(std::move(gone));
    } else {
      input_.changes.push_back(std::move(change));
    }
  }

  // What is stated again at a later instant is an edit: also the rules that compare with the state before.
  void check_edits() {
    for (auto& [key, changes] : by_key_) {
      std::ranges::stable_sort(changes, {}, [&](std::size_t i) { return input_.changes[i].at; });
      for (std::size_t i = 1; i < changes.size(); ++i) {
        const Change& was = input_.changes[changes[i - 1]];
        const Change& is = input_.changes[changes[i]];
        if (was.at == is.at) {
          add_error(
              {key, "metadata.name",
               "must not be stated twice for one instant (annotation simulate.muster.dev/at), is also at " +
                   was.source.location(""),
               is.source.location("metadata.name")});
        } else if (!is.object || (!std::holds_alternative<JobObject>(*is.object) &&
                                  !std::holds_alternative<ServiceObject>(*is.object) &&
                                  !std::holds_alternative<crds::Queue>(*is.object) &&
                                  !std::holds_alternative<crds::Project>(*is.object) &&
                                  !std::holds_alternative<crds::NodePool>(*is.object))) {
          continue;
        } else if (!deleted_between(key, was, is)) {
          locate(crds::validate_update(parsed(was.source), parsed(is.source)), is.source);
        }
      }
    }
  }

  // What annotations say of a node's GPUs they say of each. Without a device plugin slices count them.
  void check_gpus_of_nodes() {
    std::set<std::string> resources;
    for (const Change& c : input_.changes) {
      if (const auto* pool = std::get_if<crds::NodePool>(&*c.object))
        resources.insert(pool->spec.gpu_resource);
    }
    if (resources.empty()) resources.insert(crds::NodePool{}.spec.gpu_resource);
    for (const Change& c : input_.changes) {
      const auto* object = std::get_if<NodeObject>(&*c.object);
      if (object == nullptr || c.remove) continue;
      const auto spec = reconcilers::node_spec(object->node, resources);
      const auto check = [&](std::string_view annotation, bool is_taken, const char* what) {
        if (spec.gpus == 0 || is_taken || client::find_value(object->node.annotations, annotation) == nullptr)
          return;
        const std::string field = "metadata.annotations." + std::string(annotation);
        add_error({c.key, field,
                   "must have a " + std::string(what) + " for each GPU of the node, which has " +
                       std::to_string(spec.gpus),
                   c.source.location(field)});
      };
      check(reconcilers::kGpuLinksAnnotation, !spec.gpu_links.empty(), "row");
      check(reconcilers::kGpuNumaAnnotation, !spec.gpu_numa.empty(), "number");
    }
  }

  bool deleted_between(const std::string& key, const Change& was, const Change& is) const {
    return std::ranges::any_of(input_.changes, [&](const Change& c) {
      return c.remove && c.key == key && c.at > was.at && c.at <= is.at;
    });
  }

  // Objects are not kept as JSON: edits are few.
  static Json parsed(const Document& source) {
    auto loaded = crds::load_all_documents(*source.text, source.file, crds::Letters::kText);
    for (const Document& d : loaded.documents) {
      if (d.inside == source.inside) return *d.object;
    }
    return Json::object();
  }

  Input input_;
  bool has_calendar_ = false;
  std::map<std::string, std::vector<std::size_t>> by_key_;  // without deletions
};

}  // namespace

Input read_input(const std::vector<std::string>& files, std::istream& in) {
  InputReader reader;
  for (const std::string& argument : files) {
    const auto all = crds::expand_path(argument);
    if (all.empty()) reader.add_error({{}, {}, "has no file named *.yaml, *.yml or *.json", argument});
    for (const std::string& file : all) reader.take(crds::load_file(file, in, crds::Letters::kText));
  }
  return reader.finish();
}

Input read_text(std::string_view text, const std::string& name) {
  InputReader reader;
  reader.take(crds::load_all_documents(text, name, crds::Letters::kText));
  return reader.finish();
}

}  // namespace muster::simulate
