"""Prints as SVG documents."""

from shapes import HEIGHT, WIDTH

# Paper grain, the same for all prints.
GRAIN = (
    '<filter id="grain"><feTurbulence type="fractalNoise" baseFrequency=".8 .35" numOctaves="2"/>'
    '<feColorMatrix values="0 0 0 0 .3 0 0 0 0 .25 0 0 0 0 .15 0 0 0 .5 -.14"/></filter>'
)


def encode(shapes):
    """The document's bytes."""
    gradients, body = {}, []
    for shape in shapes:
        paint = shape.paint
        if isinstance(paint, tuple):
            paint = f"url(#{gradients.setdefault(paint, f'g{len(gradients)}')})"
        path = "L".join(f"{x:.4g} {y:.4g}" for x, y in shape.points)
        opacity = "" if shape.alpha == 1 else f' opacity="{shape.alpha:g}"'
        body.append(f'<path d="M{path}Z" fill="{paint}"{opacity}/>')
    defs = "".join(
        f'<linearGradient id="{name}" x2="0" y2="1"><stop stop-color="{top}"/>'
        f'<stop offset="1" stop-color="{bottom}"/></linearGradient>'
        for (top, bottom), name in gradients.items()
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}">'
        f'<defs>{defs}{GRAIN}</defs><g fill-rule="evenodd">\n' + "\n".join(body) + "\n</g>"
        f'<rect width="{WIDTH}" height="{HEIGHT}" filter="url(#grain)"/></svg>\n'
    ).encode()
