"""A queue whose numbers may change their worth while they wait."""

from hypothesis import given
from hypothesis import strategies as st

from overlace.arrays.heap import dequeue, enqueue, new_queue

CALLS = st.lists(
    st.tuples(st.sampled_from(["put", "take", "first"]), st.integers(0, 7), st.integers(-3, 3)), max_size=40
)


@given(CALLS)
def test_the_first_is_always_worth_most_and_of_equals_the_lowest(calls):
    queue, waiting = new_queue(8), {}
    for call, each, worth in calls:
        if call == "put":
            enqueue(queue, each, float(worth))
            waiting[each] = worth
        elif call == "take" and each in waiting:
            dequeue(queue, each)
            del waiting[each]
        elif call == "first" and waiting:
            each = int(queue.item[0])
            dequeue(queue, each)
            del waiting[each]
        assert queue.size[0] == len(waiting)
        assert {each for each in range(8) if queue.place[each] >= 0} == set(waiting)
        if waiting:
            assert queue.item[0] == min(waiting, key=lambda each: (-waiting[each], each))
