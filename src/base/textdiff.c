/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation. Equal lines get equal numbers (by sorting: a hash could be made to collide).
 * Lines that only one side has are certainly changed and taken out. Myers' O(ND) algorithm in its
 * linear-space form runs on what remains: a search from both ends finds a point on a shortest path,
 * which cuts the box in two; the larger half waits on a stack, so the stack never holds more than
 * log2(lines) boxes.
 */
#include "base/textdiff.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Steps of the search in total: some tenths of a second. */
#define BUDGET_DEFAULT ((uint64_t)64 << 20)
#define STACK_MAX 64

struct line_ref {
	const char *p;
	uint32_t len;
	uint32_t line; /* of the old text, or of the new one behind all of those */
};

/* One side without its certain changes. */
struct sequence {
	uint32_t *id;	/* numbers of the lines */
	uint32_t *line; /* which lines of the text they are */
	bool *changed;	/* of each line of the text */
	uint32_t n;
};

struct box {
	uint32_t a0, a1, b0, b1;
};

struct search {
	struct sequence a, b;
	/* Furthest points by diagonal (a - b), from the start and from the end; shifted so that
	 * there is room for every diagonal and one beyond on each side. */
	int32_t *from_start, *from_end;
	uint64_t budget;
	bool is_rough;
};

/* Lines */

static int split(struct textdiff_side *side, const char *text, size_t len)
{
	size_t n = 0;

	if (len > TEXTDIFF_BYTES_MAX)
		return -E2BIG;
	for (const char *p = text, *end = text + len; p < end; n++) {
		const char *nl = memchr(p, '\n', (size_t)(end - p));

		p = nl ? nl + 1 : end;
	}
	if (n > TEXTDIFF_LINES_MAX)
		return -E2BIG;
	side->start = malloc((n + 1) * sizeof(*side->start));
	if (!side->start)
		return -ENOMEM;
	side->data = text;
	side->n = (uint32_t)n;
	side->start[n] = (uint32_t)len;
	for (size_t i = 0, at = 0; i < n; i++) {
		const char *nl = memchr(text + at, '\n', len - at);

		side->start[i] = (uint32_t)at;
		at = nl ? (size_t)(nl + 1 - text) : len;
	}
	return 0;
}

static uint32_t line_len(const struct textdiff_side *side, uint32_t i)
{
	return side->start[i + 1] - side->start[i];
}

static bool same_line(const struct textdiff_side *a, uint32_t i, const struct textdiff_side *b,
		      uint32_t j)
{
	uint32_t len = line_len(a, i);

	return len == line_len(b, j) &&
	       memcmp(a->data + a->start[i], b->data + b->start[j], len) == 0;
}

static int compare_text(const struct line_ref *a, const struct line_ref *b)
{
	if (a->len != b->len)
		return a->len < b->len ? -1 : 1;
	return memcmp(a->p, b->p, a->len);
}

static int compare_refs(const void *a, const void *b)
{
	const struct line_ref *x = a, *y = b;
	int r = compare_text(x, y);

	if (r)
		return r;
	return x->line < y->line ? -1 : x->line > y->line;
}

/* Numbers of the lines in @box, of both sides, into @ids (old lines first); a line without an equal
 * one on the other side gets UINT32_MAX. */
static int number_lines(const struct textdiff *d, const struct box *box, uint32_t *ids)
{
	uint32_t na = box->a1 - box->a0, n = na + (box->b1 - box->b0);
	struct line_ref *refs = malloc(((size_t)n + 1) * sizeof(*refs));

	if (!refs)
		return -ENOMEM;
	for (uint32_t i = 0; i < n; i++) {
		const struct textdiff_side *side = i < na ? &d->old_side : &d->new_side;
		uint32_t line = i < na ? box->a0 + i : box->b0 + (i - na);

		refs[i].p = side->data + side->start[line];
		refs[i].len = line_len(side, line);
		refs[i].line = i;
	}
	qsort(refs, n, sizeof(*refs), compare_refs);
	for (uint32_t i = 0, end; i < n; i = end) {
		for (end = i + 1; end < n && compare_text(&refs[i], &refs[end]) == 0;)
			end++;
		/* Sorted by line within: old ones come first. */
		bool is_shared = refs[i].line < na && refs[end - 1].line >= na;

		for (uint32_t k = i; k < end; k++)
			ids[refs[k].line] = is_shared ? i : UINT32_MAX;
	}
	free(refs);
	return 0;
}

static void take_shared(struct sequence *s, const uint32_t *ids, uint32_t first, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		if (ids[i] == UINT32_MAX) {
			s->changed[first + i] = true;
			continue;
		}
		s->id[s->n] = ids[i];
		s->line[s->n++] = first + i;
	}
}

/* The search */

static void mark(struct sequence *s, uint32_t from, uint32_t to)
{
	for (uint32_t i = from; i < to; i++)
		s->changed[s->line[i]] = true;
}

static bool spend(struct search *s, uint64_t steps)
{
	if (s->budget < steps) {
		s->budget = 0;
		s->is_rough = true;
		return false;
	}
	s->budget -= steps;
	return true;
}

/* The diagonals that one direction has reached. */
struct reach {
	int32_t *far; /* by diagonal */
	int32_t lo, hi;
};

/* One more edit: the range grows by a diagonal on each side, or turns back at the box's border. The
 * entries just outside are @outside, which is worse than any point. */
static void widen(struct reach *r, int32_t min, int32_t max, int32_t outside)
{
	if (r->lo > min)
		r->far[--r->lo - 1] = outside;
	else
		r->lo++;
	if (r->hi < max)
		r->far[++r->hi + 1] = outside;
	else
		r->hi--;
}

static bool is_reached(const struct reach *r, int32_t k)
{
	return k >= r->lo && k <= r->hi;
}

static bool step_forward(struct search *s, const struct box *box, struct reach *f,
			 const struct reach *b, bool may_meet, int32_t *ret_x, int32_t *ret_y)
{
	for (int32_t k = f->hi; k >= f->lo; k -= 2) {
		int32_t below = f->far[k - 1], above = f->far[k + 1];
		int32_t x = below >= above ? below + 1 : above;
		int32_t y = x - k;
		int32_t from = x;

		while (x < (int32_t)box->a1 && y < (int32_t)box->b1 && s->a.id[x] == s->b.id[y]) {
			x++;
			y++;
		}
		f->far[k] = x;
		(void)spend(s, (uint64_t)(x - from));
		if (may_meet && is_reached(b, k) && b->far[k] <= x) {
			*ret_x = x;
			*ret_y = y;
			return true;
		}
	}
	return false;
}

static bool step_back(struct search *s, const struct box *box, struct reach *b,
		      const struct reach *f, bool may_meet, int32_t *ret_x, int32_t *ret_y)
{
	for (int32_t k = b->hi; k >= b->lo; k -= 2) {
		int32_t below = b->far[k - 1], above = b->far[k + 1];
		int32_t x = below < above ? below : above - 1;
		int32_t y = x - k;
		int32_t from = x;

		while (x > (int32_t)box->a0 && y > (int32_t)box->b0 &&
		       s->a.id[x - 1] == s->b.id[y - 1]) {
			x--;
			y--;
		}
		b->far[k] = x;
		(void)spend(s, (uint64_t)(from - x));
		if (may_meet && is_reached(f, k) && x <= f->far[k]) {
			*ret_x = x;
			*ret_y = y;
			return true;
		}
	}
	return false;
}

/* A point on a shortest path through @box, neither of its corners. False: too costly. */
static bool find_middle(struct search *s, const struct box *box, uint32_t *ret_a, uint32_t *ret_b)
{
	int32_t min = (int32_t)box->a0 - (int32_t)box->b1;
	int32_t max = (int32_t)box->a1 - (int32_t)box->b0;
	int32_t f_start = (int32_t)box->a0 - (int32_t)box->b0;
	int32_t b_start = (int32_t)box->a1 - (int32_t)box->b1;
	struct reach f = { s->from_start, f_start, f_start };
	struct reach b = { s->from_end, b_start, b_start };
	bool is_odd = (f_start - b_start) & 1;
	int32_t x, y;

	f.far[f_start] = (int32_t)box->a0;
	b.far[b_start] = (int32_t)box->a1;
	for (;;) {
		if (!spend(s, (uint64_t)(f.hi - f.lo) + (uint64_t)(b.hi - b.lo) + 2))
			return false;
		widen(&f, min, max, -1);
		if (step_forward(s, box, &f, &b, is_odd, &x, &y))
			break;
		widen(&b, min, max, INT32_MAX);
		if (step_back(s, box, &b, &f, !is_odd, &x, &y))
			break;
	}
	*ret_a = (uint32_t)x;
	*ret_b = (uint32_t)y;
	return true;
}

/* Takes equal lines off both ends; true if nothing remains to be decided. */
static bool shrink(struct search *s, struct box *box)
{
	while (box->a0 < box->a1 && box->b0 < box->b1 && s->a.id[box->a0] == s->b.id[box->b0]) {
		box->a0++;
		box->b0++;
	}
	while (box->a0 < box->a1 && box->b0 < box->b1 &&
	       s->a.id[box->a1 - 1] == s->b.id[box->b1 - 1]) {
		box->a1--;
		box->b1--;
	}
	if (box->a0 < box->a1 && box->b0 < box->b1)
		return false;
	mark(&s->a, box->a0, box->a1);
	mark(&s->b, box->b0, box->b1);
	return true;
}

static uint32_t size_of(const struct box *box)
{
	return (box->a1 - box->a0) + (box->b1 - box->b0);
}

/* Is (@a, @b) in the box, and are both parts smaller than it? Always true; what follows relies on
 * it. */
static bool cuts(const struct box *box, uint32_t a, uint32_t b)
{
	return a >= box->a0 && a <= box->a1 && b >= box->b0 && b <= box->b1 &&
	       !(a == box->a0 && b == box->b0) && !(a == box->a1 && b == box->b1);
}

static void compare(struct search *s)
{
	struct box stack[STACK_MAX];
	struct box box = { 0, s->a.n, 0, s->b.n };
	size_t depth = 0;

	for (;;) {
		uint32_t a, b;

		if (shrink(s, &box)) {
			if (!depth)
				return;
			box = stack[--depth];
			continue;
		}
		if (!find_middle(s, &box, &a, &b) || !cuts(&box, a, b) || depth == STACK_MAX) {
			s->is_rough = true;
			mark(&s->a, box.a0, box.a1);
			mark(&s->b, box.b0, box.b1);
			box.a0 = box.a1;
			box.b0 = box.b1;
			continue;
		}
		struct box left = { box.a0, a, box.b0, b }, right = { a, box.a1, b, box.b1 };
		bool is_left_larger = size_of(&left) > size_of(&right);

		stack[depth++] = is_left_larger ? left : right;
		box = is_left_larger ? right : left;
	}
}

/* The result */

static int collect(struct textdiff *d, const bool *a, const bool *b)
{
	uint32_t i = 0, j = 0;
	size_t cap = 0;

	while (i < d->old_side.n || j < d->new_side.n) {
		struct textdiff_edit e = { .a = i, .b = j };

		while (i < d->old_side.n && a[i])
			i++;
		while (j < d->new_side.n && b[j])
			j++;
		e.na = i - e.a;
		e.nb = j - e.b;
		if (!e.na && !e.nb) {
			i++;
			j++;
			continue;
		}
		if (d->n == cap) {
			size_t more = cap ? 2 * cap : 16;
			struct textdiff_edit *v = realloc(d->edits, more * sizeof(*v));

			if (!v)
				return -ENOMEM;
			d->edits = v;
			cap = more;
		}
		d->edits[d->n++] = e;
	}
	return 0;
}

/*
 * Where only lines were added or only removed next to equal lines, the same change can often be
 * written in several ways. The last one reads best: what was added ends where the next thing
 * begins. One equal line stays before the next edit.
 */
static void slide(struct textdiff *d)
{
	for (size_t i = d->n; i-- > 0;) {
		struct textdiff_edit *e = &d->edits[i];
		uint32_t end = i + 1 < d->n ? d->edits[i + 1].a - 1 : d->old_side.n;

		if (e->na && e->nb)
			continue;
		while (e->a + e->na < end &&
		       (e->na ? same_line(&d->old_side, e->a, &d->old_side, e->a + e->na)
			      : same_line(&d->new_side, e->b, &d->new_side, e->b + e->nb))) {
			e->a++;
			e->b++;
		}
	}
}

static int search_box(struct textdiff *d, const struct box *box, bool *a, bool *b, uint64_t budget)
{
	size_t na = box->a1 - box->a0, nb = box->b1 - box->b0, n = na + nb;
	/* ids, then per side: ids without the certain changes, their lines; then two arrays of
	 * diagonals with two entries beyond. */
	uint32_t *room = calloc(3 * n + 2 * (n + 6) + 1, sizeof(*room));
	struct search s = { .budget = budget };
	int r;

	if (!room)
		return -ENOMEM;
	s.a = (struct sequence){ .id = room + n, .line = room + n + na, .changed = a };
	s.b = (struct sequence){ .id = room + n + 2 * na,
				 .line = room + n + 2 * na + nb,
				 .changed = b };
	r = number_lines(d, box, room);
	if (r == 0) {
		take_shared(&s.a, room, box->a0, (uint32_t)na);
		take_shared(&s.b, room + na, box->b0, (uint32_t)nb);
		/* Diagonals go from -(lines of b) to (lines of a), and one beyond. */
		s.from_start = (int32_t *)(room + 3 * n) + nb + 2;
		s.from_end = s.from_start + n + 6;
		compare(&s);
		d->is_rough = s.is_rough;
	}
	free(room);
	return r;
}

int textdiff_make(const char *old_text, size_t old_len, const char *new_text, size_t new_len,
		  uint64_t budget, struct textdiff *ret)
{
	struct textdiff d = { 0 };
	struct box box = { 0 };
	bool *changed = NULL;
	int r = split(&d.old_side, old_text, old_len);

	if (r == 0)
		r = split(&d.new_side, new_text, new_len);
	if (r == 0) {
		changed = calloc((size_t)d.old_side.n + d.new_side.n + 1, sizeof(*changed));
		r = changed ? 0 : -ENOMEM;
	}
	if (r == 0) {
		box.a1 = d.old_side.n;
		box.b1 = d.new_side.n;
		while (box.a0 < box.a1 && box.b0 < box.b1 &&
		       same_line(&d.old_side, box.a0, &d.new_side, box.b0)) {
			box.a0++;
			box.b0++;
		}
		while (box.a0 < box.a1 && box.b0 < box.b1 &&
		       same_line(&d.old_side, box.a1 - 1, &d.new_side, box.b1 - 1)) {
			box.a1--;
			box.b1--;
		}
		r = search_box(&d, &box, changed, changed + d.old_side.n,
			       budget ? budget : BUDGET_DEFAULT);
	}
	if (r == 0)
		r = collect(&d, changed, changed + d.old_side.n);
	if (r == 0)
		slide(&d);
	free(changed);
	if (r < 0)
		textdiff_done(&d);
	*ret = d;
	return r;
}

void textdiff_done(struct textdiff *diff)
{
	free(diff->old_side.start);
	free(diff->new_side.start);
	free(diff->edits);
	*diff = (struct textdiff){ 0 };
}

/* Unified form */

static void add_lines(struct strbuf *sb, char mark_char, const struct textdiff_side *side,
		      uint32_t from, uint32_t n)
{
	for (uint32_t i = from; i < from + n; i++) {
		uint32_t len = line_len(side, i);
		const char *p = side->data + side->start[i];

		strbuf_putc(sb, mark_char);
		strbuf_add(sb, p, len);
		if (p[len - 1] != '\n')
			strbuf_puts(sb, "\n\\ No newline at end of file\n");
	}
}

/* "12,3", "12" for one line, "11,0" for none behind line 11. */
static void add_range(struct strbuf *sb, char sign, uint32_t from, uint32_t n)
{
	strbuf_printf(sb, "%c%u", sign, n ? from + 1 : from);
	if (n != 1)
		strbuf_printf(sb, ",%u", n);
}

/* One hunk of edits @first to @last. */
static void add_hunk(const struct textdiff *d, size_t first, size_t last, uint32_t context,
		     struct strbuf *sb)
{
	const struct textdiff_edit *e = &d->edits[first], *l = &d->edits[last];
	/* As many equal lines are before it on both sides, and after it. */
	uint32_t before = e->a < e->b ? e->a : e->b;
	uint32_t after = d->old_side.n - (l->a + l->na);
	uint32_t a, b;

	before = before < context ? before : context;
	after = after < context ? after : context;
	a = e->a - before;
	b = e->b - before;
	strbuf_puts(sb, "@@ ");
	add_range(sb, '-', a, l->a + l->na + after - a);
	strbuf_putc(sb, ' ');
	add_range(sb, '+', b, l->b + l->nb + after - b);
	strbuf_puts(sb, " @@\n");
	for (; e <= l; e++) {
		add_lines(sb, ' ', &d->old_side, a, e->a - a);
		add_lines(sb, '-', &d->old_side, e->a, e->na);
		add_lines(sb, '+', &d->new_side, e->b, e->nb);
		a = e->a + e->na;
	}
	add_lines(sb, ' ', &d->old_side, a, after);
}

void textdiff_unified(const struct textdiff *diff, uint32_t context, struct strbuf *sb)
{
	for (size_t i = 0, last; i < diff->n; i = last + 1) {
		last = i;
		while (last + 1 < diff->n &&
		       diff->edits[last + 1].a - (diff->edits[last].a + diff->edits[last].na) <=
			       2 * context)
			last++;
		add_hunk(diff, i, last, context, sb);
	}
}
