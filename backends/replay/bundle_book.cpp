#include "backends/replay/bundle_book.hpp"

#include <map>
#include <utility>

#include "sim/core/error.hpp"

namespace syncline {

void BundleBook::enter(Bundle& bundle) {
  bundle.number = entries_.size();
  entries_.push_back({&bundle, std::move(bundle.uses), Bytes(0)});
  bundle.uses.clear();
}

void BundleBook::close() {
  // Classes are split bundle by bundle: by whether a link is loaded, and by how much of its bandwidth.
  std::vector<std::uint32_t> class_of(topology_.links().size(), 0);
  std::uint32_t classes = 1;
  for (const Entry& entry : entries_) {
    std::map<std::pair<std::uint32_t, double>, std::uint32_t> parts;
    for (const LinkUse& use : entry.uses) {
      std::uint32_t& its_class = class_of[use.link.value()];
      const double share = use.coefficient / topology_.link(use.link).bandwidth.si();
      const auto [part, added] = parts.try_emplace({its_class, share}, classes);
      if (added) ++classes;
      its_class = part->second;
    }
  }
  std::vector<bool> has_first(classes, false);
  std::vector<bool> first(class_of.size(), false);
  for (std::size_t link = 0; link < class_of.size(); ++link) {
    first[link] = !has_first[class_of[link]];
    has_first[class_of[link]] = true;
  }
  for (const Entry& entry : entries_) {
    SYNCLINE_CHECK(entry.bundle->uses.empty(), "a bundle is entered once");
    for (const LinkUse& use : entry.uses)
      if (first[use.link.value()]) entry.bundle->uses.push_back(use);
  }
}

std::vector<Bytes> BundleBook::carried() const {
  std::vector<Bytes> carried(topology_.links().size());
  for (const Entry& entry : entries_)
    for (const LinkUse& use : entry.uses) carried[use.link.value()] += entry.moved * use.coefficient;
  return carried;
}

}  // namespace syncline
