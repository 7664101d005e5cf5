// The only code that includes yaml-cpp: its events become a ConfigNode.
#include <fmt/format.h>
#include <yaml-cpp/depthguard.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <sstream>

#include "sim/config/document.hpp"

namespace syncline {
namespace {

std::shared_ptr<const ConfigSource> split_lines(const std::string& text, const std::string& file) {
  ConfigSource source{file, {}};
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    if (line.ends_with('\r')) line.pop_back();
    source.lines.push_back(std::move(line));
  }
  return std::make_shared<const ConfigSource>(std::move(source));
}

// yaml-cpp's own words on a tab are of no help.
void refuse_tab_indents(const ConfigSource& source) {
  for (std::size_t i = 0; i < source.lines.size(); ++i) {
    const std::string& line = source.lines[i];
    const std::size_t text = line.find_first_not_of(" \t");
    const std::size_t tab = line.find('\t');
    if (text == std::string::npos || line[text] == '#' || tab > text) continue;
    throw InputError({Place{source.name, static_cast<int>(i) + 1, static_cast<int>(tab) + 1, line},
                      "tab in the indentation; YAML allows only spaces there"});
  }
}

constexpr std::size_t MostKeys = 1000;  // in one map; every format needs far fewer

/// Builds the tree as the parser announces its parts. Nodes that are open wait on a stack.
class TreeBuilder : public YAML::EventHandler {
 public:
  TreeBuilder(std::shared_ptr<const ConfigSource> source, ConfigErrors& errors)
      : source_(std::move(source)), errors_(errors) {}

  [[nodiscard]] ConfigNode take_root() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& at, YAML::anchor_t) override { leaf(at, ConfigNode::Kind::Nothing, ""); }
  void OnScalar(const YAML::Mark& at, const std::string&, YAML::anchor_t, const std::string& value) override {
    leaf(at, ConfigNode::Kind::Scalar, value);
  }
  void OnAlias(const YAML::Mark& at, YAML::anchor_t) override {
    errors_.add(mark(at).place(), "aliases (*name) are not accepted; write the value out");
    leaf(at, ConfigNode::Kind::Faulty, "");
  }
  void OnSequenceStart(const YAML::Mark& at, const std::string&, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {
    open(at, ConfigNode::Kind::List);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& at, const std::string&, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {
    open(at, ConfigNode::Kind::Map);
  }
  void OnMapEnd() override { close(); }

 private:
  struct Open {
    ConfigNode node;
    bool has_key = false;  // of a map: the key is there, its value is not
    ConfigEntry entry;
  };

  ConfigMark mark(const YAML::Mark& at) const { return {source_, at.line + 1, at.column + 1}; }

  ConfigNode make(const YAML::Mark& at, ConfigNode::Kind kind) const {
    ConfigNode node;
    node.kind = kind;
    node.mark = mark(at);
    return node;
  }
  void leaf(const YAML::Mark& at, ConfigNode::Kind kind, const std::string& text) {
    ConfigNode node = make(at, kind);
    node.text = text;
    attach(std::move(node));
  }
  void open(const YAML::Mark& at, ConfigNode::Kind kind) { stack_.push_back({make(at, kind), false, {}}); }
  void close() {
    ConfigNode node = std::move(stack_.back().node);
    stack_.pop_back();
    attach(std::move(node));
  }

  void attach(ConfigNode node) {
    if (stack_.empty()) {
      root_ = std::move(node);
      return;
    }
    Open& parent = stack_.back();
    if (parent.node.kind == ConfigNode::Kind::List) {
      parent.node.items.push_back(std::move(node));
    } else if (!parent.has_key) {
      if (node.kind != ConfigNode::Kind::Scalar)
        errors_.add(node.mark.place(), "a key must be a single word");
      parent.entry = {node.text, node.mark, {}};
      parent.has_key = true;
    } else {
      parent.entry.value = std::move(node);
      parent.has_key = false;
      add_entry(parent.node, std::move(parent.entry));
    }
  }

  void add_entry(ConfigNode& map, ConfigEntry entry) {
    const ConfigEntry* first = map.find(entry.key);
    if (first == nullptr) {
      if (map.entries.size() == MostKeys)
        throw InputError({entry.mark.place(), fmt::format("more than {} keys in one block", MostKeys)});
      map.entries.push_back(std::move(entry));
      return;
    }
    errors_.add(entry.mark.place(),
                fmt::format("repeated key \"{}\"; it stands on line {} already, keep one of them", entry.key,
                            first->mark.line));
  }

  std::shared_ptr<const ConfigSource> source_;
  ConfigErrors& errors_;
  ConfigNode root_;
  std::vector<Open> stack_;
};

}  // namespace

ConfigNode parse_yaml(const std::string& text, const std::string& file, ConfigErrors& errors) {
  const auto source = split_lines(text, file);
  refuse_tab_indents(*source);
  const auto place = [&](const YAML::Mark& at) {
    return ConfigMark{source, at.line + 1, at.column + 1}.place();
  };
  try {
    std::istringstream stream(text);
    YAML::Parser parser(stream);
    TreeBuilder builder(source, errors);
    parser.HandleNextDocument(builder);
    ConfigNode root = builder.take_root();
    TreeBuilder second(source, errors);
    if (parser.HandleNextDocument(second))
      throw InputError({second.take_root().mark.place(), "a second document begins here; a file holds one"});
    return root;
  } catch (const YAML::DeepRecursion& error) {
    throw InputError({place(error.mark), "nested too deeply; every format needs a few levels only"});
  } catch (const YAML::Exception& error) {
    throw InputError({place(error.mark), "not valid YAML: " + error.msg});
  }
}

}  // namespace syncline
