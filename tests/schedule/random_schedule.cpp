#include "tests/schedule/random_schedule.hpp"

#include <algorithm>

#include "sim/core/random.hpp"

namespace syncline::test {
namespace {

class Generator {
 public:
  explicit Generator(std::uint64_t seed) : random_(seed) {}

  Schedule make() {
    schedule_.name = text();
    schedule_.job = {number(), Flop(number()), Flop(number()), any<Precision>(5)};
    make_meshes();
    make_families();
    for (std::size_t i = 0, count = 1 + below(4); i < count; ++i)
      schedule_.streams.push_back(name("stream", i));
    for (std::size_t i = 0, count = 1 + below(3); i < count; ++i) schedule_.works.push_back(make_work());
    make_numbers();
    make_roles();
    for (std::size_t rank = 0; rank < world_; ++rank)
      if (below(3) == 0) schedule_.speeds.push_back({RankId(rank), 0.5 + random_.uniform()});
    return std::move(schedule_);
  }

 private:
  std::size_t below(std::size_t bound) { return static_cast<std::size_t>(random_.below(bound)); }
  int small() { return static_cast<int>(below(100)); }
  template <class Enum>
  Enum any(std::size_t count) {
    return static_cast<Enum>(below(count));
  }

  double number() {
    static constexpr double Numbers[] = {
        0, 1, 436224, 0.1 + 0.2, 1.0 / 3, 1e-300, 5e-324, 45035.996273704975, 1e6, 123456.789};
    return below(3) == 0 ? random_.uniform() * 1e6 : Numbers[below(std::size(Numbers))];
  }
  std::string text() {
    static const std::string Texts[] = {"",
                                        "plain",
                                        "two words",
                                        "\"quoted\" \\ back",
                                        "ümläut 8 × H100 🚀",
                                        "# no comment",
                                        "tab\tline\nreturn\r",
                                        "\x01\x7f",
                                        "a=b,c/d:e",
                                        "-",
                                        "+1"};
    return Texts[below(std::size(Texts))];
  }
  // Unique by its number.
  std::string name(const std::string& word, std::size_t number) {
    return word + std::to_string(number) + text();
  }

  void make_meshes() {
    const int tp = 1 + static_cast<int>(below(3)), dp = 1 + static_cast<int>(below(4)),
              pp = 1 + static_cast<int>(below(3));
    world_ = static_cast<std::size_t>(tp * dp * pp);
    schedule_.meshes.emplace_back(name("dense", 0),
                                  std::vector<MeshAxis>{{"tp", tp}, {name("dp", 1), dp}, {"pp", pp}});
    schedule_.meshes.emplace_back("expert", std::vector<MeshAxis>{{"ep", static_cast<int>(world_)}});
  }

  void make_families() {
    const Mesh& mesh = schedule_.meshes.front();
    schedule_.families.push_back(GroupFamily::along(name("f", 0), mesh, {}));
    schedule_.families.push_back(GroupFamily::along(name("f", 1), mesh, {mesh.axes()[1].name}));
    schedule_.families.push_back(GroupFamily::along(name("f", 2), mesh, {"pp", "tp"}));
    schedule_.families.push_back(GroupFamily::along("f3", schedule_.meshes.back(), {"ep"}));
    schedule_.families.push_back(GroupFamily::listed("f4", static_cast<int>(world_), {}));
    // Some of the ranks in any order, cut into groups.
    std::vector<RankId> ranks;
    for (std::size_t rank = 0; rank < world_; ++rank)
      if (below(4) != 0)
        ranks.insert(ranks.begin() + static_cast<std::ptrdiff_t>(below(ranks.size() + 1)), RankId(rank));
    if (below(2) == 0) std::sort(ranks.begin(), ranks.end());
    std::vector<std::vector<RankId>> groups;
    for (const RankId rank : ranks) {
      if (groups.empty() || below(5) == 0) groups.emplace_back();
      groups.back().push_back(rank);
    }
    schedule_.families.push_back(GroupFamily::listed("f5", static_cast<int>(world_), std::move(groups)));
  }

  Work make_work() {
    Work work{text(), {}};
    for (std::size_t i = 0, count = below(4); i < count; ++i) {
      Kernel kernel;
      kernel.kind = any<KernelClass>(5);
      kernel.precision = any<Precision>(5);
      kernel.flop = Flop(number());
      kernel.hbm = Bytes(number());
      kernel.batch = 1 + small();
      kernel.m = 1 + small();
      kernel.n = small() == 0 ? 1000000000 : 1 + small();
      kernel.k = 1 + small();
      kernel.backward = below(2) == 0;
      kernel.fixed = Seconds(number());
      work.kernels.push_back(kernel);
    }
    return work;
  }

  MemoryEffect effect() {
    return {any<MemoryCategory>(MemoryCategoryCount), Bytes(below(2) == 0 ? number() : -number()),
            below(4) == 0};
  }
  MemoryEffect resident() { return {any<MemoryCategory>(MemoryCategoryCount), Bytes(number())}; }

  Peer peer() {
    const int axis = static_cast<int>(below(4)) - 1;
    const std::size_t count =
        axis < 0 ? world_ : static_cast<std::size_t>(schedule_.meshes.front().size(axis));
    return {axis, static_cast<int>(below(count))};
  }

  Collective collective() {
    Collective one{any<CollectiveKind>(5), FamilyId(below(schedule_.families.size())), any<Algorithm>(3),
                   Bytes(number())};
    one.chunks = 1 + small();
    if (!schedule_.exchanges.empty() && below(2) == 0)
      one.exchange = ExchangeId(below(schedule_.exchanges.size()));
    one.back = below(4) == 0;
    if (!schedule_.libraries.empty() && below(2) == 0)
      one.library = LibraryId(below(schedule_.libraries.size()));
    one.units = small();
    return one;
  }

  // Numbers with runs of equal ones.
  std::vector<double> numbers(std::size_t count, double most) {
    std::vector<double> list;
    while (list.size() < count)
      list.insert(list.end(), std::min(count - list.size(), 1 + below(6)),
                  below(3) == 0 ? 0 : most * random_.uniform());
    return list;
  }
  Exchange exchange(const std::string& name) {
    const std::size_t g = 1 + below(4), nodes = 1 + below(4), n = g * nodes, groups = 1 + below(3);
    Exchange one{name, static_cast<int>(n), numbers(groups * n * n, 1e6), 0, {}};
    if (below(2) == 0) return one;
    one.node_members = static_cast<int>(g);
    one.to_nodes = numbers(groups * n * nodes, 1e6);
    return one;
  }
  void make_numbers() {
    for (std::size_t i = 0, count = below(4); i < count; ++i) {
      schedule_.exchanges.push_back(exchange(text() + std::to_string(i)));
      schedule_.libraries.push_back(text() + std::to_string(i));
      schedule_.loads.push_back({text() + std::to_string(i), FamilyId(below(schedule_.families.size())),
                                 numbers(1 + below(20), 1e6)});
    }
  }

  OpBody body(std::size_t op) {
    switch (below(op == 0 ? 5 : 6)) {
      case 0: return Compute{WorkId(below(schedule_.works.size()))};
      case 1: return collective();
      case 2: return Send{peer(), Bytes(number()), small(), below(2) == 0};
      case 3: return Receive{peer(), Bytes(number()), small(), below(2) == 0};
      case 4: return HostWork{Seconds(number())};
      default: return HostWait{OpIndex(below(op))};
    }
  }

  Op make_op(std::size_t index) {
    Op op;
    op.body = body(index);
    op.stream = StreamId(below(schedule_.streams.size()));
    op.tag = {any<Phase>(6), small() - 1, small() - 1, small() - 1, text()};
    for (std::size_t earlier = 0; earlier < index; ++earlier)
      if (below(4) == 0) op.after.push_back(OpIndex(earlier));
    for (std::size_t i = 0, count = below(3); i < count; ++i) op.memory.push_back(effect());
    if (std::holds_alternative<Compute>(op.body) && !schedule_.loads.empty() && below(2) == 0)
      op.load = LoadId(below(schedule_.loads.size()));
    return op;
  }

  void make_roles() {
    const std::size_t count = 1 + below(4);
    for (std::size_t r = 0; r < count; ++r) {
      Role role{text(), {}, {}};
      for (std::size_t i = 0, effects = below(3); i < effects; ++i) role.resident.push_back(resident());
      for (std::size_t i = 0, ops = below(12); i < ops; ++i) role.program.push_back(make_op(i));
      schedule_.roles.push_back(std::move(role));
    }
    for (std::size_t rank = 0; rank < world_; ++rank) schedule_.role_of.push_back(RoleId(below(count)));
  }

  Random random_;
  Schedule schedule_;
  std::size_t world_ = 0;
};

}  // namespace

Schedule random_schedule(std::uint64_t seed) {
  return Generator(seed).make();
}

}  // namespace syncline::test
