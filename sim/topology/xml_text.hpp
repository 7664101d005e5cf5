// Inside of the topology library: XML with the line of what is wrong in it.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <pugixml.hpp>
#include <string>

#include "sim/topology/export.hpp"

namespace syncline {

class XmlText {
 public:
  /// @param text  must outlive this
  /// @throws FormatError when it is not XML
  explicit XmlText(const std::string& text) : text_(text) {
    const unsigned flags = pugi::parse_default | pugi::parse_trim_pcdata;
    const pugi::xml_parse_result parsed =
        document_.load_buffer(text.data(), text.size(), flags, pugi::encoding_utf8);
    if (!parsed) fail(parsed.offset, fmt::format("not valid XML: {}", parsed.description()));
  }

  /// @throws FormatError when the outermost element has another name
  [[nodiscard]] pugi::xml_node root(const char* name) const {
    const pugi::xml_node found = document_.child(name);
    if (!found) fail(document_.document_element(), fmt::format("expected a <{}>", name));
    return found;
  }

  [[noreturn]] void fail(const pugi::xml_node& at, const std::string& reason) const {
    fail(at.offset_debug(), reason);
  }

 private:
  [[noreturn]] void fail(std::ptrdiff_t offset, const std::string& reason) const {
    const auto at = text_.begin() + std::clamp<std::ptrdiff_t>(offset, 0, std::ssize(text_));
    const auto begin = std::find(std::make_reverse_iterator(at), text_.rend(), '\n').base();
    const std::string line(begin, std::find(at, text_.end(), '\n'));
    throw FormatError({"", static_cast<int>(1 + std::count(text_.begin(), at, '\n')),
                       static_cast<int>(at - begin) + 1, line},
                      reason);
  }

  const std::string& text_;
  pugi::xml_document document_;
};

}  // namespace syncline
